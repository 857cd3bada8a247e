//! The binary, run as people run it: flags in, exit code, stdout and stderr out.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod bad_input;
mod held;
mod kills;
mod program;
mod scenarios;
mod stops;
mod traces;
