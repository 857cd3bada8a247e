//! Parses the flags, calls one verb, turns its failure into one sentence and an exit code.
//!
//! **Invariant**: stdout carries results only, stderr everything else.

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use super::args::{BenchVerb, Cli, JournalVerb, Verb};
use super::exit::{FLAGS, Failure};
use super::{bench, dump, load, replay, run, verify};

pub(crate) fn main() -> ExitCode {
    let Cli { verb } = Cli::parse();
    let outcome = log().and_then(|()| match &verb {
        Verb::Run(args) => run::run(args),
        Verb::Replay(args) => replay::replay(args),
        Verb::Load(args) => load::load(args),
        Verb::LoadBus => load::serve_child(),
        Verb::Bench(BenchVerb::Limit(args)) => bench::limit(args),
        Verb::Journal(JournalVerb::Verify(args)) => verify::verify(args),
        Verb::Journal(JournalVerb::Dump(args)) => dump::dump(args),
    });
    let Err(failure) = outcome else { return ExitCode::SUCCESS };
    if let Some(text) = &failure.text {
        eprintln!("callboard: {}", text.replace(['\n', '\r'], " "));
    }
    ExitCode::from(failure.code)
}

/// The log goes to stderr where `CALLBOARD_LOG` asks for one.
fn log() -> Result<(), Failure> {
    let Some(wanted) = std::env::var_os("CALLBOARD_LOG").filter(|wanted| !wanted.is_empty()) else {
        return Ok(());
    };
    let malformed = |why: String| {
        let wanted = wanted.display();
        Failure::new(FLAGS, format!("CALLBOARD_LOG is `{wanted}` and no filter of a log: {why}"))
    };
    let text = wanted.to_str().ok_or_else(|| malformed("it is not UTF-8 text".to_owned()))?;
    let filter = EnvFilter::builder().parse(text).map_err(|error| malformed(error.to_string()))?;
    // Whoever reads stderr may go away: that must not end the thread that has something to say.
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .log_internal_errors(false)
        .init();
    Ok(())
}
