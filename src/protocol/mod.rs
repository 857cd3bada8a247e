//! The law: pure types, state machines and rules.
//!
//! **Boundary**: no clock, no chance, no IO, no async and no log in here. Time and fresh ids are
//! arguments; what must happen is returned.

pub(crate) mod hash;
pub mod id;
pub mod message;
pub mod session;
pub mod supervisor;

pub use id::{Label, MessageId, SessionId, Timestamp, Workspace};
pub use message::{Body, Draft, Message, Source, SourceKind};
