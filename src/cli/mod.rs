//! The command line: one file a verb.
//!
//! **Boundary**: reads flags and files, calls a verb, prints. What a run does is `sim`'s.

mod args;
mod dump;
mod exit;
mod journal;
mod main;
mod progress;
mod replay;
mod run;
mod shown;
mod stage;
mod verify;

pub(crate) use main::main;
