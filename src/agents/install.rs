//! The names of these agents' factories.
//!
//! **Invariant**: a name, once in a journal, keeps its meaning.

use super::{Echo, Relay, Sink, Source};
use crate::bus::{Agent, AgentError, Builder, Seed};

/// The factory of [`Echo`].
pub const ECHO: &str = "echo";
/// The factory of [`Relay`].
pub const RELAY: &str = "relay";
/// The factory of [`Sink`].
pub const SINK: &str = "sink";
/// The factory of [`Source`].
pub const SOURCE: &str = "source";

/// Makes all of these agents known to a bus.
pub fn install(builder: Builder) -> Builder {
    builder
        .agent(ECHO, |seed: Seed| boxed(Echo::from_seed(&seed)))
        .agent(RELAY, |seed: Seed| boxed(Relay::from_seed(&seed)))
        .agent(SINK, |_: Seed| boxed(Ok(Sink)))
        .agent(SOURCE, |seed: Seed| boxed(Source::from_seed(&seed)))
}

fn boxed(agent: Result<impl Agent, AgentError>) -> Result<Box<dyn Agent>, AgentError> {
    agent.map(|agent| Box::new(agent) as Box<dyn Agent>)
}
