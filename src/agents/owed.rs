//! Letters that an agent still has to send, kept in its state where a target had no room.
//!
//! **Invariant**: letters leave in the order they were owed, each exactly once: what is staged and
//! what is still owed are kept by the same frame.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::kept::{kept, read};
use crate::bus::{AgentError, Next, Turn};
use crate::error::Code;
use crate::protocol::session::AgentState;
use crate::protocol::{Body, Draft, MessageId, SessionId};

/// What is still to be sent.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Owed {
    letters: VecDeque<Letter>,
    /// Whether the journal holds a state, which must be replaced from then on.
    #[serde(skip)]
    is_kept: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Letter {
    to: SessionId,
    body: Body,
    cause: MessageId,
}

impl Owed {
    /// From the state that was kept.
    pub(super) fn from_state(state: Option<&AgentState>) -> Result<Self, AgentError> {
        let owed: Owed = state.map(|state| read(state, "state")).transpose()?.unwrap_or_default();
        Ok(Owed { is_kept: state.is_some(), ..owed })
    }

    /// Owes one more letter.
    pub(super) fn add(&mut self, to: SessionId, body: Body, cause: MessageId) {
        self.letters.push_back(Letter { to, body, cause });
    }

    /// Stages letters with the turn's end until one finds no room.
    ///
    /// # Errors
    /// When a target refuses a letter for another reason than room.
    pub(super) async fn settle(&mut self, turn: &mut Turn) -> Result<Next, AgentError> {
        while let Some(Letter { to, body, cause }) = self.letters.front() {
            let draft = Draft { to: *to, body: body.clone(), cause: Some(*cause) };
            match turn.stage(draft).await {
                Ok(_) => drop(self.letters.pop_front()),
                Err(error) if is_for_want_of_room(error.code()) => {
                    self.is_kept = true;
                    return Ok(Next::Again);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Next::End)
    }

    /// What is to be kept, where anything is or was.
    pub(super) fn state(&self) -> Option<AgentState> {
        self.is_kept.then(|| kept(self).ok()).flatten()
    }
}

/// Whether a send may succeed in a later turn.
pub(super) fn is_for_want_of_room(code: Code) -> bool {
    matches!(code, Code::MailboxFull | Code::TurnLimit)
}
