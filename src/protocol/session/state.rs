//! What a session's journal amounts to.
//!
//! **Invariant**: everything here can be rebuilt by replay, and nothing else is here. A snapshot is
//! this, serialised.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event::{AgentState, Created, Outcome, Refusal};
use crate::protocol::id::SessionId;
use crate::protocol::message::Message;

/// The fold of a session's events.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// How it was made; none before its first event.
    pub created: Option<Arc<Created>>,
    /// Whether it is closed.
    pub closed: bool,
    /// The outbox, by target.
    pub lanes: BTreeMap<SessionId, Lane>,
    /// Messages in the outbox over all lanes that their targets have not decided.
    pub n_unsettled: u64,
    /// What was decided of each sender's numbers.
    pub marks: BTreeMap<SessionId, Mark>,
    /// Accepted and not taken, or taken and offered again: in the order to be taken.
    pub inbox: VecDeque<Item>,
    /// Arrivals so far.
    pub arrivals: u64,
    /// The open turn.
    pub turn: Option<OpenTurn>,
    /// Turns so far.
    pub turns: u64,
    /// The agent asked for another turn without mail, which was tried this often.
    pub again: Option<u32>,
    /// What the agent keeps.
    pub agent: Option<AgentState>,
    /// Outcomes to be told, by sender of the dead message.
    pub reports: BTreeMap<SessionId, Report>,
    /// Outcomes not yet known to be noted, over all reports.
    pub n_untold: u64,
    /// The highest outcome number noted, by who told.
    pub noted: BTreeMap<SessionId, u64>,
    /// Totals of the whole journal.
    pub counts: Counts,
}

/// The outbox for one target. Numbers `settled + 1 .. next` are unsettled, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lane {
    /// The next number to be given.
    pub next: u64,
    /// Every number up to this one is decided by the target, and this is known here.
    pub settled: u64,
    /// The messages after it.
    pub unsettled: VecDeque<Arc<Message>>,
}

impl Default for Lane {
    fn default() -> Self {
        Lane { next: 1, settled: 0, unsettled: VecDeque::new() }
    }
}

/// What was decided of one sender's numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// Every number up to this one is decided.
    pub high_water: u64,
    /// The sender knows the decision of every number up to this one.
    pub settled: u64,
    /// Refusals above the settled mark.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<Refusal>,
}

/// One accepted message.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Its place in the inbox.
    pub arrival: u64,
    /// Its sender.
    pub from: SessionId,
    /// Its number for the pair.
    pub n: u64,
    /// Turns that have taken it.
    pub attempts: u32,
    /// How many of them gave it back, which is no failure.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub given_back: u32,
    /// The message.
    pub message: Arc<Message>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Item {
    /// Turns that have tried it: while one has it, with that one.
    pub fn tries(&self) -> u32 {
        self.attempts - self.given_back
    }
}

/// A turn that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenTurn {
    /// Its number.
    pub number: u64,
    /// The attempt of the messages it began with.
    pub attempt: u32,
    /// Whether it began without mail, by the agent's wish.
    pub wished: bool,
    /// What it has taken.
    pub taken: Vec<Item>,
}

/// Outcomes to be told to one session. Numbers `next - untold.len() .. next`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The next outcome number.
    pub next: u64,
    /// Not yet known to be noted, in order.
    pub untold: VecDeque<Outcome>,
}

impl Default for Report {
    fn default() -> Self {
        Report { next: 1, untold: VecDeque::new() }
    }
}

/// Totals of the whole journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Messages this session has queued.
    pub queued: u64,
    /// Messages it has accepted.
    pub accepted: u64,
    /// Messages it has refused.
    pub refused: u64,
    /// Accepted messages that are handled.
    pub handled: u64,
    /// Accepted messages that are dead.
    pub dead: u64,
    /// Own messages of which it was told that they are dead.
    pub told_dead: u64,
}

impl State {
    /// Whether anything is left to do without new mail.
    pub fn has_pending(&self) -> bool {
        self.owes_others()
            || !self.inbox.is_empty()
            || self.turn.is_some()
            || (self.again.is_some() && !self.closed)
    }

    /// Whether something is left to be told to other sessions: mail or outcomes.
    pub fn owes_others(&self) -> bool {
        self.n_unsettled > 0 || self.n_untold > 0
    }

    /// Accepted mail that no turn has taken yet: what counts against the pending limit.
    pub fn n_untaken(&self) -> u64 {
        self.inbox.iter().filter(|item| item.attempts == 0).count() as u64
    }
}

impl Lane {
    /// The messages numbered `first ..= last`, where they are unsettled.
    pub fn range(&self, first: u64, last: u64) -> impl Iterator<Item = &Arc<Message>> {
        let skip = first.saturating_sub(self.settled + 1);
        let take = (last + 1).saturating_sub(first.max(self.settled + 1));
        self.unsettled
            .iter()
            .skip(usize::try_from(skip).unwrap_or(usize::MAX))
            .take(usize::try_from(take).unwrap_or(usize::MAX))
    }
}
