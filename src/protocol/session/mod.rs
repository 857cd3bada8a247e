//! One session: its events, its state, and the machine that decides.
//!
//! **Invariant**: state changes only in [`fold`], live and replayed alike; what follows a decision
//! happens only after the decision is on disk.

pub(crate) mod backoff;
mod bound;
pub mod event;
pub mod fold;
mod inbox;
pub mod input;
mod live;
mod look;
pub mod machine;
mod outbox;
mod report;
pub mod state;
mod turn;

pub use bound::{Fit, queued_bound};
pub use event::{
    AgentState, BodySpec, Created, Dead, DeadReason, Event, Failure, Outcome, Reason, Refusal,
    TurnOutcome,
};
pub use fold::Illegal;
pub use input::{
    Action, Addressed, Answer, Call, Effects, End, Input, Inspection, Receipt, Status, Verdict,
};
pub use machine::Machine;
pub use state::State;
