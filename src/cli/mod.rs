//! The command line: one file a verb.
//!
//! **Boundary**: reads flags and files, calls a verb, prints. What a run does is `sim`'s.

mod args;
mod bench;
mod dump;
mod exit;
mod journal;
mod load;
mod load_args;
mod main;
mod progress;
mod replay;
mod run;
mod shown;
mod stage;
mod verify;

pub(crate) use main::main;
