//! Handles whatever comes and does nothing with it.
//!
//! **Boundary**: keeps no state; what it has handled is counted by its session.

use crate::bus::{Agent, Next, StepFuture, Turn};

/// Handles whatever comes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sink;

impl Agent for Sink {
    fn step<'a>(&'a mut self, _turn: &'a mut Turn) -> StepFuture<'a> {
        Box::pin(async { Ok(Next::End) })
    }
}
