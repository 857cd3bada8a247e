//! What a state amounts to, for who looks at a session.
//!
//! **Boundary**: nothing is decided here, and nothing is known but the state.

use super::input::{Inspection, Status};
use super::state::State;
use crate::protocol::id::{Label, SessionId};

impl State {
    /// The state of affairs of the session that has this state, in memory or not.
    pub fn inspection(&self, (id, label): (SessionId, &Label), loaded: bool) -> Inspection {
        let taken = self.turn.as_ref().map_or(&[][..], |turn| &turn.taken);
        let unhandled = || taken.iter().chain(&self.inbox);
        let numbers = self.lanes.iter().map(|(target, lane)| (*target, lane.next - 1));
        Inspection {
            id,
            label: label.clone(),
            status: self.status(loaded),
            pending: self.inbox.len() as u64,
            taken: taken.len() as u64,
            unsettled: self.n_unsettled,
            oldest: unhandled().map(|item| item.message.sent).min(),
            attempts: unhandled().map(|item| item.attempts).max().unwrap_or(0),
            counts: self.counts,
            numbers: numbers.collect(),
            quiet: !self.has_pending(),
        }
    }

    fn status(&self, loaded: bool) -> Status {
        match &self.turn {
            _ if self.closed => Status::Closed,
            _ if !loaded => Status::Inactive,
            Some(_) => Status::Running,
            None => Status::Idle,
        }
    }
}
