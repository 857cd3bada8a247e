//! The binary, broken on purpose on a real machine: `./check.sh faults`.
//!
//! **Boundary**: nothing here runs unless `CALLBOARD_FAULTS` is set; what this machine cannot do
//! is skipped by name, on stderr.

mod calls;
mod clock;
mod files;
mod gate;
mod kills;
mod rounds;
mod second;
mod space;
mod tracer;
