//! What scenarios need to open a bus: agents that do one thing, sessions by label, a disk.

use std::sync::Arc;

use callboard::bus::{Agent, AgentError, BodySpec, Bus, Create, Next, Seed, StepFuture, Turn};
use callboard::persist::Disk;
use callboard::protocol::session::AgentState;
use callboard::protocol::{Draft, Label, SessionId, Workspace};
use callboard::{Config, Durability, Error};

/// Handles everything, and keeps what it has seen.
struct Sink;

impl Agent for Sink {
    fn step<'a>(&'a mut self, _turn: &'a mut Turn) -> StepFuture<'a> {
        Box::pin(async { Ok(Next::End) })
    }
}

/// Sends every body back.
struct Echo;

impl Agent for Echo {
    fn step<'a>(&'a mut self, turn: &'a mut Turn) -> StepFuture<'a> {
        Box::pin(async move {
            for item in turn.messages().to_vec() {
                let draft = Draft {
                    to: item.from,
                    body: item.message.body.clone(),
                    cause: Some(item.message.id),
                };
                turn.stage(draft).await?;
            }
            Ok(Next::End)
        })
    }
}

/// Panics at every message that says so.
struct Panicky;

impl Agent for Panicky {
    fn step<'a>(&'a mut self, turn: &'a mut Turn) -> StepFuture<'a> {
        Box::pin(async move {
            let bad = turn.messages().iter().any(|item| item.message.body.as_str() == "panic");
            assert!(!bad, "the agent was told to panic");
            Ok(Next::End)
        })
    }
}

/// A configuration for tests: one arbiter would hide races, so there are two.
pub(crate) fn config(durability: Durability) -> Config {
    let mut config = Config::default();
    config.life.arbiters = 2;
    config.store.durability = durability;
    config.limits.retry_backoff = std::time::Duration::ZERO;
    config
}

/// Opens a bus with the agents of these tests.
pub(crate) async fn open(disk: Arc<dyn Disk>, config: Config) -> Result<Bus, Error> {
    let agent = |agent: fn() -> Box<dyn Agent>| {
        move |_: Seed| -> Result<Box<dyn Agent>, AgentError> { Ok(agent()) }
    };
    Bus::builder()
        .disk(disk)
        .config(config)
        .agent("sink", agent(|| Box::new(Sink)))
        .agent("echo", agent(|| Box::new(Echo)))
        .agent("panicky", agent(|| Box::new(Panicky)))
        .open()
        .await
}

/// A label that the test knows to be fine.
pub(crate) fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

/// Makes a session in workspace `main`; the body is `driver` or an agent's name.
pub(crate) async fn create(bus: &Bus, name: &str, body: &str) -> Result<SessionId, Error> {
    let body = match body {
        "driver" => BodySpec::Driver,
        agent => BodySpec::Agent { name: agent.to_owned(), settings: None::<AgentState> },
    };
    let workspace = Some(Workspace::new("main").unwrap());
    bus.create(Create { label: label(name), workspace, body }).await
}

/// Runs a scenario on a runtime of its own.
pub(crate) fn run<T>(scenario: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(scenario)
}
