//! `callboard replay`: a message trace, every person a session, every line a message.
//!
//! **Invariant**: the trace is read and checked whole before anything is made.

use std::fs;

use callboard::sim::replay::{self, Replay};
use callboard::sim::trace::Trace;

use super::args::ReplayArgs;
use super::exit::{Failure, UNUSABLE};
use super::stage::{self, could_be_written};

/// Characters of a header that are shown.
const HEADER_MAX: usize = 60;

pub(crate) fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    let ReplayArgs { trace: path, limit, receipts, store, json } = args;
    let bytes = fs::read(path).map_err(|error| Failure::io("read the trace", path, &error))?;
    let trace = Trace::parse(&bytes).map_err(|malformed| {
        Failure::new(UNUSABLE, format!("malformed trace {}: {malformed}", path.display()))
    })?;
    // A header of words is one; where there are digits, somebody may have meant a message.
    if let Some(header) = trace.header().filter(|header| header.contains(char::is_numeric)) {
        let shown: String =
            header.chars().take(HEADER_MAX).flat_map(char::escape_default).collect();
        eprintln!("callboard: the first line is taken for a header: `{shown}`");
    }
    if let Some(path) = receipts {
        could_be_written(path).map_err(|error| Failure::io("write receipts to", path, &error))?;
    }
    let replay = Replay { trace, limit: *limit, receipts: receipts.clone() };
    let config = store.options().replay_config();
    stage::perform(store, config, *json, |stage| replay::replay(replay, stage))
}
