//! Parses the flags, calls one verb, turns its failure into one sentence and an exit code.
//!
//! **Invariant**: stdout carries results only, stderr everything else.

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use super::args::{BenchVerb, Cli, JournalVerb, Verb};
use super::{bench, dump, load, replay, run, verify};

pub(crate) fn main() -> ExitCode {
    let Cli { verb } = Cli::parse();
    log();
    let outcome = match &verb {
        Verb::Run(args) => run::run(args),
        Verb::Replay(args) => replay::replay(args),
        Verb::Load(args) => load::load(args),
        Verb::LoadBus => load::serve_child(),
        Verb::Bench(BenchVerb::Limit(args)) => bench::limit(args),
        Verb::Journal(JournalVerb::Verify(args)) => verify::verify(args),
        Verb::Journal(JournalVerb::Dump(args)) => dump::dump(args),
    };
    let Err(failure) = outcome else { return ExitCode::SUCCESS };
    if let Some(text) = &failure.text {
        eprintln!("callboard: {}", text.replace(['\n', '\r'], " "));
    }
    ExitCode::from(failure.code)
}

/// The log goes to stderr where `CALLBOARD_LOG` asks for one.
fn log() {
    let Ok(filter) = EnvFilter::try_from_env("CALLBOARD_LOG") else { return };
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
