//! `callboard journal dump`: every event, one a line.
//!
//! **Invariant**: events of one session come in the order of its journal; an event that this
//! version does not know ends the dump with an error.

use std::collections::HashMap;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use callboard::Fault;
use callboard::persist::store::StoredFrame;
use callboard::protocol::SessionId;

use super::args::DumpArgs;
use super::exit::{Failure, MISSING, UNUSABLE};
use super::journal;
use super::shown::{Labels, Shown, events};
use super::stage::written;

pub(crate) fn dump(args: &DumpArgs) -> Result<(), Failure> {
    let DumpArgs { dir, session, jsonl } = args;
    let mut labels = Labels::default();
    read(dir, |frame| labels.learn(frame).map_err(|error| unknown(frame, &error)))?;
    let only = session.as_ref().map(|label| {
        let missing = || {
            Failure::new(
                MISSING,
                format!("{}: no session has the label or the id `{label}`", dir.display()),
            )
        };
        labels.find(label).ok_or_else(missing)
    });
    let only = only.transpose()?;
    let as_json = *jsonl || !io::stdout().is_terminal();
    let mut out = BufWriter::new(io::stdout().lock());
    let mut numbers: HashMap<SessionId, u64> = HashMap::new();
    let printed = read(dir, |frame| {
        if only.is_some_and(|only| only != frame.session) {
            return Ok(());
        }
        let number = numbers.entry(frame.session).or_default();
        let shown = events(frame, *number + 1, &labels).map_err(|error| unknown(frame, &error))?;
        *number += u64::from(!shown.is_empty());
        shown.iter().try_for_each(|shown| print(&mut out, shown, as_json))
    });
    match printed {
        Ok(()) => written(out.flush())?,
        Err(Stop::Failed(failure)) => return Err(failure),
        Err(Stop::Output(error)) => return written(Err(error)),
    }
    let report = journal::open(dir)?.verify().map_err(|fault| Failure::bus(dir, &fault.into()))?;
    if report.damage.is_empty() {
        return Ok(());
    }
    let text = "damaged frames were left out; `callboard journal verify` says where";
    Err(Failure::new(UNUSABLE, format!("{}: {text}", dir.display())))
}

/// Why reading stops before the end.
enum Stop {
    Failed(Failure),
    Output(io::Error),
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Failed(failure) => failure,
            Stop::Output(error) => Failure::new(UNUSABLE, error.to_string()),
        }
    }
}

/// Shows each frame in the log's order, until `see` stops it. Each reading begins anew: meanwhile
/// whoever holds the directory may have freed segments.
fn read(dir: &Path, mut see: impl FnMut(&StoredFrame) -> Result<(), Stop>) -> Result<(), Stop> {
    let reader = journal::open(dir).map_err(Stop::Failed)?;
    let mut seen = Ok(());
    let read = reader.frames(&mut |frame| {
        if seen.is_ok() {
            seen = see(&frame);
        }
    });
    seen?;
    read.map_err(|fault: Fault| Stop::Failed(Failure::bus(dir, &fault.into())))
}

fn print(out: &mut impl Write, shown: &Shown, as_json: bool) -> Result<(), Stop> {
    let line = if as_json { serde_json::to_string(shown) } else { shown.text() };
    let line = line.map_err(|error| Stop::Failed(Failure::new(UNUSABLE, error.to_string())))?;
    writeln!(out, "{line}").map_err(Stop::Output)
}

fn unknown(frame: &StoredFrame, error: &serde_json::Error) -> Stop {
    let text = format!("the frame at position {} holds no known event: {error}", frame.position);
    Stop::Failed(Failure::new(UNUSABLE, text))
}
