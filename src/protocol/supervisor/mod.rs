//! The session graph: who exists, who may talk to whom, and what the data directory is for.
//!
//! **Invariant**: the graph is the fold of the supervisor's own stream; "not allowed" and "not
//! there" are one answer.

pub mod event;
pub mod graph;
pub mod rules;

pub use event::{Event, Origin};
pub use graph::{Graph, Phase, Record};
