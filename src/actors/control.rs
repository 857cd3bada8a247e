//! What a session's actor can be told, beside mail.
//!
//! **Invariant**: this lane is never refused while the bus is open, and every reply resolves: what
//! is dropped unanswered reads as closed.

use tokio::sync::oneshot;

use super::driver::{Key, Taken};
use super::request::Route;
use super::room::Staged;
use crate::config::Durability;
use crate::error::Error;
use crate::protocol::session::{Created, Input, Inspection};
use crate::protocol::{Draft, MessageId, SessionId, SourceKind};

/// Where an answer goes.
pub type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// A message is queued in its sender's journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The message.
    pub id: MessageId,
    /// The target.
    pub target: SessionId,
    /// Its number for this pair.
    pub n: u64,
    /// What the receipt promises.
    pub durability: Durability,
}

/// A message to be sent, outside a turn or at once inside one.
#[derive(Debug)]
pub struct Send {
    /// What is to be sent.
    pub draft: Draft,
    /// Whether to wait where the target has no room.
    pub wait_for_room: bool,
    /// Who sends, inside the session.
    pub kind: SourceKind,
    /// Whom to give the receipt.
    pub reply: Reply<Receipt>,
}

/// What a session's actor can be told.
pub enum Control {
    /// Make the session: its journal begins with this. Answered when that is durable.
    Create {
        /// How it is made.
        created: Created,
        /// Whom to tell.
        reply: Reply<()>,
    },
    /// Be loaded: there is pending work, or there may be.
    Load,
    /// Send a message.
    Send(Send),
    /// Prepare a message that is sent with the end of the turn.
    Stage {
        /// What is to be sent.
        draft: Draft,
        /// The message with its room.
        reply: oneshot::Sender<Result<Staged, Error>>,
    },
    /// The open turn asks, within a step, what has arrived.
    Arrived {
        /// Told when it is known.
        reply: Reply<()>,
    },
    /// For the machine: answers, outcomes and calls of other sessions.
    Input(Input),
    /// The supervisor's word on a route for sends.
    Routed {
        /// The target.
        target: SessionId,
        /// The route; none: there is no such session, or it may not be reached.
        route: Result<Route, Error>,
    },
    /// The supervisor's word on a route for mail that is already queued.
    Delivers {
        /// The target.
        target: SessionId,
        /// The route with its verdict.
        route: Route,
    },
    /// The supervisor has no answer: it is gone.
    Unrouted {
        /// The target.
        target: SessionId,
    },
    /// Routes to this target are to be asked for again.
    Revoke {
        /// The target.
        target: SessionId,
    },
    /// A target for which this session queued has room for one message, which is taken for it.
    Granted {
        /// The target.
        target: SessionId,
    },
    /// Drive the session from outside.
    Attach {
        /// The key of the handle.
        reply: Reply<Key>,
    },
    /// The driver waits for a turn.
    Take {
        /// The handle's key.
        key: u64,
        /// The turn.
        reply: Reply<Taken>,
    },
    /// The driver waits no more.
    Leave {
        /// The handle's key.
        key: u64,
    },
    /// The driver has handled what it took.
    Acknowledge {
        /// The handle's key.
        key: u64,
        /// The turn.
        turn: u64,
        /// Answered when that is durable.
        reply: Reply<()>,
    },
    /// The driver's handle is gone.
    Detach {
        /// The handle's key.
        key: u64,
    },
    /// What is the state of affairs?
    Inspect {
        /// Whom to tell; none: the session is not in memory, its journal says all there is.
        reply: Reply<Option<Inspection>>,
    },
    /// Take no turn and accept no mail any more.
    Close {
        /// Answered when that is durable.
        reply: Reply<()>,
    },
    /// Nothing can be written any more: who waits for it is to be told.
    Faulted,
    /// Append a snapshot: old segments wait for it.
    Snapshot,
    /// The supervisor's word after a fall: load again.
    Respawn,
    /// The supervisor's word after a fall: [`Control::Respawn`] comes later; until then calls are
    /// answered with the fault.
    Withhold,
    /// The supervisor's word after a fall, or of a session that failed: from now on the session is
    /// opened without its agent.
    Fail {
        /// Whether that is recorded: then what it has accepted is dead.
        for_good: bool,
    },
    /// The bus closes: end the open turn within the limit, then the load.
    Stop,
}
