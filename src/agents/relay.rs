//! Sends each message on.
//!
//! **Invariant**: to each target the messages go in the order they came, staged with the end of the
//! turn, so each is passed on exactly once.

use serde::{Deserialize, Serialize};

use super::kept;
use super::owed::Owed;
use crate::bus::{Agent, AgentError, Seed, StepFuture, Turn};
use crate::protocol::session::AgentState;
use crate::protocol::{Label, SessionId};

/// What a relay is made with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelaySettings {
    /// Whom every message is sent on to.
    pub to: Vec<Label>,
}

/// Sends each message on to every target. What finds no room is kept and tried again.
#[derive(Debug)]
pub struct Relay {
    to: Vec<Label>,
    targets: Vec<SessionId>,
    owed: Owed,
}

impl Relay {
    /// From what a factory is given.
    ///
    /// # Errors
    /// When the settings are missing or do not read, or the state does not.
    pub fn from_seed(seed: &Seed) -> Result<Self, AgentError> {
        let RelaySettings { to } = kept::settings(seed.settings.as_ref())?;
        let owed = Owed::from_state(seed.state.as_ref())?;
        Ok(Relay { to, targets: Vec::new(), owed })
    }

    async fn find_targets(&mut self, turn: &mut Turn) -> Result<(), AgentError> {
        for label in self.to.iter().skip(self.targets.len()) {
            self.targets.push(turn.find(label).await?);
        }
        Ok(())
    }
}

impl Agent for Relay {
    fn step<'a>(&'a mut self, turn: &'a mut Turn) -> StepFuture<'a> {
        Box::pin(async move {
            self.find_targets(turn).await?;
            for item in turn.messages() {
                for target in &self.targets {
                    self.owed.add(*target, item.message.body.clone(), item.message.id);
                }
            }
            self.owed.settle(turn).await
        })
    }

    fn state(&self) -> Option<AgentState> {
        self.owed.state()
    }
}
