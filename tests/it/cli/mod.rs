//! The binary, run as people run it: flags in, exit code, stdout and stderr out.

mod bad_input;
mod cleaned;
mod held;
pub(crate) mod kills;
mod load;
mod load_page;
mod load_restart;
pub(crate) mod program;
mod said;
mod scenarios;
mod stops;
mod stranded;
mod traces;
