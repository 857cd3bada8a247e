//! The binary: parses flags, calls one verb, turns its error into an exit code.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
