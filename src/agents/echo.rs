//! Sends each message back to its sender.
//!
//! **Invariant**: replies leave in the order of the messages, staged with the end of the turn, so
//! each message is answered exactly once.

use super::owed::Owed;
use crate::bus::{Agent, AgentError, Seed, StepFuture, Turn};
use crate::protocol::session::AgentState;

/// Sends each message back to its sender. A reply that finds no room is kept and tried again.
#[derive(Debug, Default)]
pub struct Echo {
    owed: Owed,
}

impl Echo {
    /// From what a factory is given; no settings.
    ///
    /// # Errors
    /// When the state does not read.
    pub fn from_seed(seed: &Seed) -> Result<Self, AgentError> {
        Ok(Echo { owed: Owed::from_state(seed.state.as_ref())? })
    }
}

impl Agent for Echo {
    fn step<'a>(&'a mut self, turn: &'a mut Turn) -> StepFuture<'a> {
        Box::pin(async move {
            for item in turn.messages() {
                self.owed.add(item.from, item.message.body.clone(), item.message.id);
            }
            self.owed.settle(turn).await
        })
    }

    fn state(&self) -> Option<AgentState> {
        self.owed.state()
    }
}
