//! The binary: parses flags, calls one verb, turns its error into an exit code.

fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
