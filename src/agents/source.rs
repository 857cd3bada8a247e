//! Sends numbered messages, a burst a turn, once a first message has started it.
//!
//! **Invariant**: message k goes to target k modulo the number of targets; how many are sent is
//! kept with the turn that staged them, so none is left out and none is sent twice.

use serde::{Deserialize, Serialize};

use super::kept::{self, kept};
use super::owed::is_for_want_of_room;
use crate::bus::{Agent, AgentError, Next, Seed, StepFuture, Turn};
use crate::protocol::session::AgentState;
use crate::protocol::{Draft, Label};

/// What a source is made with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceSettings {
    /// Whom it sends to, in turn.
    pub to: Vec<Label>,
    /// Messages in all.
    pub count: u64,
    /// Bytes of each body, at least; a body is filled up with dots.
    pub size: usize,
    /// Messages a turn, at most.
    pub burst: usize,
}

/// Sends numbered messages, round robin, until all are sent.
#[derive(Debug)]
pub struct Source {
    settings: SourceSettings,
    place: Place,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Place {
    is_started: bool,
    sent: u64,
}

impl Source {
    /// From what a factory is given.
    ///
    /// # Errors
    /// When the settings are missing or do not read, or the state does not.
    pub fn from_seed(seed: &Seed) -> Result<Self, AgentError> {
        let settings = kept::settings(seed.settings.as_ref())?;
        let place = seed.state.as_ref().map(|state| kept::read(state, "state")).transpose()?;
        Ok(Source { settings, place: place.unwrap_or_default() })
    }

    /// Stages up to a burst; stops where a target has no room.
    async fn burst(&mut self, turn: &mut Turn) -> Result<(), AgentError> {
        let SourceSettings { to, count, size, burst } = &self.settings;
        let targets = to.iter().cycle().skip(self.place.sent as usize % to.len().max(1));
        for label in targets.take(*burst) {
            if self.place.sent >= *count {
                break;
            }
            let target = turn.find(label).await?;
            match turn.stage(Draft::text(target, body(self.place.sent + 1, *count, *size))).await {
                Ok(_) => self.place.sent += 1,
                Err(error) if is_for_want_of_room(error.code()) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl Agent for Source {
    fn step<'a>(&'a mut self, turn: &'a mut Turn) -> StepFuture<'a> {
        Box::pin(async move {
            self.place.is_started |= !turn.messages().is_empty();
            if !self.place.is_started {
                return Ok(Next::End);
            }
            self.burst(turn).await?;
            let is_done = self.place.sent >= self.settings.count;
            Ok(if is_done { Next::End } else { Next::Again })
        })
    }

    fn state(&self) -> Option<AgentState> {
        kept(&self.place).ok()
    }
}

/// Bytes of the longest body of a source with so many messages of this size.
pub fn longest_body(count: u64, size: usize) -> usize {
    heading(count, count).len().max(size)
}

fn heading(number: u64, count: u64) -> String {
    format!("message {number} of {count} ")
}

fn body(number: u64, count: u64, size: usize) -> String {
    let mut text = heading(number, count);
    text.extend(std::iter::repeat_n('.', size.saturating_sub(text.len())));
    text
}
