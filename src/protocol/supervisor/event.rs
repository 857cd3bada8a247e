//! What happened to the graph: the only things the supervisor's stream holds.
//!
//! **Invariant**: as for a session's events: past facts, whole, and never skipped when unknown.

use serde::{Deserialize, Serialize};

use crate::protocol::id::{Label, SessionId};
use crate::protocol::session::Created;

/// One fact in the supervisor's stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// The directory belongs to one trace or scenario.
    Dedicated(Origin),
    /// An id and a label are taken; the session is being made.
    Provisioned(Created),
    /// The session exists.
    Activated {
        /// Which.
        id: SessionId,
    },
    /// The session could not be made, or its actor failed too often. Its id and label stay taken.
    Failed {
        /// Which.
        id: SessionId,
        /// Why, for people.
        reason: String,
    },
    /// Two sessions may talk.
    Connected {
        /// One end, the lower id.
        one: SessionId,
        /// The other end.
        other: SessionId,
    },
    /// Sessions joined a group; all members of a group may talk to each other.
    Grouped {
        /// The group.
        group: Label,
        /// Who joined.
        members: Vec<SessionId>,
    },
    /// The session is to end; from here on it accepts nothing.
    Closing {
        /// Which.
        id: SessionId,
    },
    /// The session's own journal says that it has ended.
    Closed {
        /// Which.
        id: SessionId,
    },
}

/// What a data directory is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// `trace` or `scenario`, or what an embedding program calls it.
    pub kind: String,
    /// A hash of its content.
    pub hash: String,
}
