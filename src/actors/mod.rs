//! The life: actix actors that carry out what the law decides.
//!
//! **Boundary**: no policy in here; a rule belongs to the law. No actix type leaves this module.

pub mod agent;
pub mod clock;
pub mod observer;
pub mod progress;

pub mod cell;
pub mod control;
mod proof;
mod quiet;
pub mod request;
pub mod room;
mod wake;

mod arbiter;
mod ending;
pub mod load;
pub mod shared;

mod body;
mod carry;
pub mod driver;
mod outgoing;
mod receive;
mod resident;
mod rest;
mod run;
mod session;
mod sights;
mod snapshot;

mod falls;
pub(crate) mod recovery;
pub(crate) mod stream;
pub(crate) mod supervisor;
#[cfg(test)]
mod tests;
pub mod turn;

pub use agent::{Agent, AgentError, Factory, Next, Seed, StepFuture};
pub use cell::Cell;
pub use clock::{Clock, SystemClock};
pub use control::{Control, Receipt, Reply};
pub use driver::{Driver, Taken};
pub use observer::Observer;
pub use progress::Progress;
pub use request::{Fallen, Request, Route, SupervisorHandle};
pub use shared::{Parts, Shared};
pub use turn::Turn;
