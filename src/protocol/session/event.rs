//! What happened to a session: the only things its journal holds.
//!
//! **Invariant**: an event is a past fact and carries all that the fold needs; unknown events are
//! errors, never skipped. A change here changes the journal's format.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::protocol::id::{Label, MessageId, SessionId, Workspace};
use crate::protocol::message::Message;

/// One fact in a session's journal. `n` numbers a (sender, target) pair from 1; `arrival` numbers
/// what a session has accepted from 1; `turn` numbers its turns from 1.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// The session exists. Always the first.
    Created(Arc<Created>),
    /// A message for `target` is in the outbox.
    Queued {
        /// The target.
        target: SessionId,
        /// Its number for this pair.
        n: u64,
        /// The message.
        message: Arc<Message>,
    },
    /// The target has decided every number up to `upto`: all accepted but the refused ones.
    Delivered {
        /// The target.
        target: SessionId,
        /// The highest number that is settled.
        upto: u64,
        /// The refused ones among the newly settled.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refused: Vec<Refusal>,
    },
    /// Number `n` of a sender is in the inbox.
    Accepted {
        /// The sender.
        from: SessionId,
        /// Its number.
        n: u64,
        /// Its place in this session's inbox.
        arrival: u64,
        /// The sender's settled mark, as the dispatch carried it.
        settled: u64,
        /// The message.
        message: Arc<Message>,
    },
    /// Number `n` of a sender was refused.
    Refused {
        /// The sender.
        from: SessionId,
        /// The number with its reason.
        #[serde(flatten)]
        refusal: Refusal,
        /// The message's name.
        id: MessageId,
        /// The sender's settled mark, as the dispatch carried it.
        settled: u64,
    },
    /// A turn has begun.
    TurnStarted {
        /// Its number.
        turn: u64,
        /// The attempt, from 1, of the messages it starts with.
        attempt: u32,
        /// The arrivals it starts with.
        taken: Vec<u64>,
    },
    /// More mail was offered to the open turn.
    Taken {
        /// The turn.
        turn: u64,
        /// The arrivals.
        taken: Vec<u64>,
    },
    /// The open turn is over. What it took and did not handle is in the inbox again.
    TurnEnded {
        /// The turn.
        turn: u64,
        /// How it ended.
        outcome: TurnOutcome,
        /// The arrivals that are handled.
        handled: Vec<u64>,
        /// The agent's state to keep, where it changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<AgentState>,
        /// Whether the agent asked for another turn without mail.
        #[serde(default, skip_serializing_if = "is_false")]
        again: bool,
    },
    /// An accepted message will not be handled.
    Dead(Dead),
    /// `sender` knows the outcomes up to `upto` that were to be told to it.
    Told {
        /// The sender of the dead messages.
        sender: SessionId,
        /// The highest outcome number it has noted.
        upto: u64,
    },
    /// Outcomes of own messages, told later by the session that had accepted them.
    OutcomeNoted {
        /// Who told.
        from: SessionId,
        /// The highest outcome number noted.
        upto: u64,
        /// The outcomes.
        outcomes: Vec<Outcome>,
    },
    /// The session takes no turn and accepts no mail any more.
    Closed,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// What a session is made as.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Created {
    /// Its address.
    pub id: SessionId,
    /// Its label.
    pub label: Label,
    /// Its workspace; one without sees only itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    /// Who thinks inside it.
    pub body: BodySpec,
}

/// Who thinks inside a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BodySpec {
    /// An agent, made by the factory of that name.
    Agent {
        /// The factory.
        name: String,
        /// What the factory is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        settings: Option<AgentState>,
    },
    /// A driver outside, which takes and acknowledges.
    Driver,
}

/// One JSON value that an agent keeps, raw.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentState(pub Box<RawValue>);

impl PartialEq for AgentState {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Eq for AgentState {}

impl Hash for AgentState {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.get().hash(hasher);
    }
}

/// A number that its target refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// The number.
    pub n: u64,
    /// Why.
    pub reason: Reason,
}

/// Why a target refuses a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Its time was over.
    Expired,
    /// Its sender took it back.
    Withdrawn,
    /// The edge was revoked.
    Revoked,
    /// The target is closed.
    Closed,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnOutcome {
    /// The agent ended it; everything it took is handled.
    Completed,
    /// The agent failed or panicked.
    Failed(Failure),
    /// The process, the actor or the session ended first: it may have been the mail's doing, so it
    /// counts as an attempt.
    Interrupted,
    /// The driver let go of it, or the bus stopped in order: nothing has failed, and what it took
    /// is offered again without having been tried. Its attempt rises and is not held against it.
    GivenBack,
}

/// An agent's failure.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The agent's code, at most 64 characters; `PANIC` for a panic.
    pub code: String,
    /// What it said, at most 500 characters.
    pub message: String,
}

/// An accepted message that will not be handled.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dead {
    /// Its place in the inbox.
    pub arrival: u64,
    /// Who sent it.
    pub from: SessionId,
    /// What is told to the sender.
    pub outcome: Outcome,
}

/// What a sender is told about one of its messages after acceptance.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The number among the outcomes told to this sender, from 1.
    pub number: u64,
    /// The message's number for the pair.
    pub n: u64,
    /// The message's name.
    pub id: MessageId,
    /// Why it is dead.
    pub reason: DeadReason,
}

/// Why an accepted message is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadReason {
    /// As many attempts as the limit allows have failed.
    Attempts,
    /// The session was closed first.
    Closed,
    /// The session has failed for good.
    Failed,
}
