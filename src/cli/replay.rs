//! `callboard replay`: a message trace, every person a session, every line a message.
//!
//! **Invariant**: the trace is read and checked whole before anything is made.

use std::fs;

use callboard::sim::replay::{self, Replay};
use callboard::sim::trace::Trace;

use super::args::ReplayArgs;
use super::exit::{Failure, UNUSABLE};
use super::stage::{self, could_be_written};

pub(crate) fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    let ReplayArgs { trace: path, limit, receipts, store, json } = args;
    let bytes = fs::read(path).map_err(|error| Failure::io("read the trace", path, &error))?;
    let trace = Trace::parse(&bytes).map_err(|malformed| {
        Failure::new(UNUSABLE, format!("malformed trace {}: {malformed}", path.display()))
    })?;
    if let Some(path) = receipts {
        could_be_written(path).map_err(|error| Failure::io("write receipts to", path, &error))?;
    }
    let replay = Replay { trace, limit: *limit, receipts: receipts.clone() };
    let config = store.options().replay_config();
    stage::perform(store, config, *json, |stage| replay::replay(replay, stage))
}
