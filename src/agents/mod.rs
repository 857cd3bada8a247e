//! Agents for scenarios, tests and load: echo, relay, source, sink.
//!
//! **Boundary**: they know the bus and the law only, as an embedding program's agents do.

pub mod echo;
mod install;
mod kept;
mod owed;
pub mod relay;
pub mod sink;
pub mod source;

pub use echo::Echo;
pub use install::{ECHO, RELAY, SINK, SOURCE, install};
pub use kept::kept;
pub use relay::{Relay, RelaySettings};
pub use sink::Sink;
pub use source::{Source, SourceSettings};
