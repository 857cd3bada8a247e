//! The log store: one shared, segmented, append-only log for all sessions, with group commit and
//! a back-chain per session. The bytes are in `docs/journal.md`.
//!
//! **Boundary**: no policy. What a payload means is the law's, when to take a snapshot the
//! actors'.

mod bytes;
mod frame;
mod group;
mod meta;
mod small_file;

mod freed;
mod heads;
mod heads_file;
mod segment;

mod recover;
mod replay;
mod scan;
mod walk;

mod batch;
mod calls;
mod care;
mod cleaner;
mod committer;
mod core;
mod keeper;
mod load;
mod queue;
mod room;
mod tail;

mod open;
mod reader;
mod serve;
mod store;

#[cfg(test)]
mod tests;

pub use meta::segment_bytes_of;
pub use reader::{Damage, LogReader, VerifyReport};
pub use store::LogStore;
