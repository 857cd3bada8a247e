//! What a session's machine is told, and what it wants done.
//!
//! **Invariant**: an action in [`Effects::actions`] may be carried out at once: whatever it waits
//! for is on disk. What still waits stays inside the machine until [`Input::Flushed`].

use std::sync::Arc;

use super::event::{AgentState, Event, Failure, Outcome, Refusal};
use super::state::{Counts, Item};
use crate::protocol::id::{Label, MessageId, SessionId, Timestamp};
use crate::protocol::message::Message;

/// Names a waiting caller; given by whoever feeds the machine, echoed in the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Call(pub u64);

/// A message with its target: the route was granted, the size checked and the room reserved.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Addressed {
    /// The target.
    pub target: SessionId,
    /// The message.
    pub message: Arc<Message>,
}

/// What the supervisor says of a route for mail that is already queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// The target may accept.
    Allowed,
    /// The edge was revoked: the target refuses.
    Revoked,
    /// The target has ended: it refuses.
    Closed,
}

/// A target's answer to a dispatch, or its word about what it has decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Answer {
    /// Every number up to this one is decided, durably.
    pub upto: u64,
    /// Which of them, above the sender's settled mark, are refused.
    pub refused: Vec<Refusal>,
    /// Whether the dispatch began above `upto + 1`, and the target's load that says so.
    pub gap: Option<u64>,
}

/// What a machine is told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input {
    /// The journal was replayed; nothing was fed before. `load` names this loading.
    Resume {
        /// The number of this loading.
        load: u64,
    },
    /// Every append up to this ticket is on disk.
    Flushed {
        /// The ticket.
        ticket: u64,
    },
    /// Messages to queue, outside a turn or at once inside one.
    Send {
        /// Whom to give the receipts.
        call: Call,
        /// The messages.
        sends: Vec<Addressed>,
    },
    /// A dispatch from a sender: numbers `first ..`, in order.
    Mail {
        /// The sender.
        from: SessionId,
        /// The first number.
        first: u64,
        /// The messages.
        messages: Vec<Arc<Message>>,
        /// The sender's settled mark, as it is on its disk.
        settled: u64,
        /// The route's verdict.
        verdict: Verdict,
    },
    /// A target's answer.
    Answer {
        /// The target.
        target: SessionId,
        /// What it says.
        answer: Answer,
    },
    /// A target had no room for a dispatch that began at `first`.
    Busy {
        /// The target.
        target: SessionId,
        /// The first number that was turned away.
        first: u64,
    },
    /// A target that was busy has room again.
    Room {
        /// The target.
        target: SessionId,
    },
    /// A target's load ended with dispatches unanswered: they are to be sent again.
    Lost {
        /// The target.
        target: SessionId,
    },
    /// Outcomes of own messages, told by the session that had accepted them.
    Report {
        /// Who tells.
        from: SessionId,
        /// The outcomes, numbered in order.
        outcomes: Vec<Outcome>,
    },
    /// A sender has noted every outcome up to `upto`.
    ReportAnswer {
        /// The sender of the dead messages.
        sender: SessionId,
        /// The highest number it has noted.
        upto: u64,
    },
    /// The body (agent or waiting driver) can take a turn. Holds until a turn begins.
    Ready,
    /// The body cannot take a turn any more (its driver stopped waiting).
    NotReady,
    /// Whether the agent's wish for a turn without mail waits: what refused its sends has no room
    /// yet. A turn with mail does not wait.
    HoldWish {
        /// Whether it waits.
        held: bool,
    },
    /// The open turn asks what has arrived since; for another turn, nothing has.
    Steer {
        /// The turn.
        turn: u64,
    },
    /// The open turn wants to end.
    End(End),
    /// The open turn failed.
    Fail {
        /// The turn; of another nothing is known any more.
        turn: u64,
        /// How.
        failure: Failure,
    },
    /// The open turn was interrupted.
    Interrupt,
    /// The open turn is given back untried: its driver's handle is gone, or the bus stops in order.
    GiveBack,
    /// Takes no turn and accepts no mail any more.
    Close {
        /// Whom to answer.
        call: Call,
    },
    /// The session has failed for good: the same, and nobody waits for it.
    Bury,
    /// What is the state of affairs?
    Inspect {
        /// Whom to answer.
        call: Call,
    },
    /// Time has passed: nothing else happened.
    Tick,
}

/// How a turn wants to end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct End {
    /// The turn; of another nothing is known any more.
    pub turn: u64,
    /// The agent's state to keep, where it changed.
    pub state: Option<AgentState>,
    /// Staged messages: queued in the frame that ends the turn.
    pub sends: Vec<Addressed>,
    /// Whether the agent wants another turn without mail.
    pub again: bool,
    /// Whether the body can take the next turn at once.
    pub ready: bool,
    /// Whether the turn ends even if mail has arrived since (a driver that takes explicitly).
    pub firm: bool,
}

/// What a machine wants done, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// The caller's messages are queued, durably.
    Receipts {
        /// The caller.
        call: Call,
        /// One for each message, in order.
        receipts: Vec<Receipt>,
    },
    /// Hand messages to a target: becomes its [`Input::Mail`].
    Dispatch {
        /// The target.
        target: SessionId,
        /// The first number.
        first: u64,
        /// The messages.
        messages: Vec<Arc<Message>>,
        /// The settled mark as it is on disk.
        settled: u64,
    },
    /// Tell a sender what is decided: becomes its [`Input::Answer`].
    Answer {
        /// The sender.
        to: SessionId,
        /// What is said.
        answer: Answer,
    },
    /// Tell a sender of dead messages: becomes its [`Input::Report`].
    Report {
        /// The sender.
        to: SessionId,
        /// The outcomes.
        outcomes: Vec<Outcome>,
    },
    /// Tell who reported that it is noted: becomes its [`Input::ReportAnswer`].
    ReportAnswer {
        /// Who reported.
        to: SessionId,
        /// The highest number noted.
        upto: u64,
    },
    /// Begin a turn in the body.
    Begin {
        /// The turn.
        turn: u64,
        /// The attempt of its messages, from 1.
        attempt: u32,
        /// The messages.
        items: Vec<Item>,
    },
    /// The answer to [`Input::Steer`], or to an [`Input::End`] that found mail: with items in the
    /// second case the turn goes on.
    Steered {
        /// What has arrived; may be empty.
        items: Vec<Item>,
    },
    /// The turn is over.
    Ended {
        /// The turn.
        turn: u64,
        /// Receipts of its staged messages, in order.
        receipts: Vec<Receipt>,
    },
    /// Give back room that was reserved for this session's pending mail. Where the load ends
    /// first, though its frame is on disk, whoever ends it feeds the last [`Input::Flushed`] and
    /// carries out this one action.
    Release {
        /// For how many messages.
        count: u64,
    },
    /// The session is closed.
    Closed {
        /// The caller.
        call: Call,
    },
    /// The state of affairs.
    Inspected {
        /// The caller.
        call: Call,
        /// The answer.
        inspection: Box<Inspection>,
    },
}

/// What a step decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Effects {
    /// To be appended as one frame; empty: nothing to append.
    pub events: Vec<Event>,
    /// The ticket of that append; 0 without events.
    pub ticket: u64,
    /// Whether something waits for that append, or for an earlier lazy one: commit now.
    pub urgent: bool,
    /// To be carried out now, in order.
    pub actions: Vec<Action>,
    /// When to feed [`Input::Tick`] at the latest.
    pub wake: Option<Timestamp>,
}

/// A message is queued in the sender's journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// The message.
    pub id: MessageId,
    /// The target.
    pub target: SessionId,
    /// Its number for this pair.
    pub n: u64,
}

/// A session's state of affairs, as it is on disk.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Inspection {
    /// The session.
    pub id: SessionId,
    /// Its label.
    pub label: Label,
    /// What it is doing; computed, never stored.
    pub status: Status,
    /// Accepted and not taken by a turn.
    pub pending: u64,
    /// Taken by the open turn.
    pub taken: u64,
    /// Queued, and the target's decision not yet known here.
    pub unsettled: u64,
    /// When the oldest accepted message that is not handled was sent.
    pub oldest: Option<Timestamp>,
    /// The highest attempt among messages that are not handled.
    pub attempts: u32,
    /// Totals of the whole journal.
    pub counts: Counts,
    /// The last number given, by target.
    pub numbers: Vec<(SessionId, u64)>,
    /// Whether nothing is left to do without new mail.
    pub quiet: bool,
}

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// A turn is open.
    Running,
    /// Loaded, no turn is open.
    Idle,
    /// Not loaded.
    Inactive,
    /// Closed.
    Closed,
    /// Failed for good: its actor fell too often, or it could not be made.
    Failed,
}
