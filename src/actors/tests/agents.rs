//! Agents for the scenarios.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::town::factory;
use crate::actors::{Agent, Next, StepFuture, Turn};
use crate::error::Code;
use crate::protocol::session::AgentState;
use crate::protocol::{Draft, Label};

/// Sends each body back.
pub(super) struct Echo;

impl Agent for Echo {
    fn step<'a>(&'a mut self, turn: &'a mut Turn) -> StepFuture<'a> {
        Box::pin(async move {
            for item in turn.messages().to_vec() {
                let draft = Draft::text(item.from, item.message.body.as_str());
                turn.stage(draft).await?;
            }
            Ok(Next::End)
        })
    }
}

/// Sends `left` messages to `sink`, as many as there is room for.
pub(super) struct Source {
    left: u64,
}

impl Agent for Source {
    fn step<'a>(&'a mut self, turn: &'a mut Turn) -> StepFuture<'a> {
        Box::pin(async move {
            let label = turn.label().as_str().replace("source", "sink");
            let label = Label::new(&label).unwrap();
            let sink = match turn.find(&label).await {
                Ok(sink) => sink,
                Err(_) => turn.find(&Label::new("sink").unwrap()).await?,
            };
            while self.left > 0 {
                match turn.stage(Draft::text(sink, format!("{}", self.left))).await {
                    Ok(_) => self.left -= 1,
                    Err(error) if error.code() == Code::MailboxFull => return Ok(Next::Again),
                    Err(error) if error.code() == Code::TurnLimit => return Ok(Next::Again),
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(Next::End)
        })
    }

    fn state(&self) -> Option<AgentState> {
        Some(AgentState(serde_json::value::to_raw_value(&self.left).unwrap()))
    }
}

/// Handles everything, or panics at each `every`th message.
struct Sink {
    seen: Arc<AtomicUsize>,
    every: usize,
}

impl Agent for Sink {
    fn step<'a>(&'a mut self, turn: &'a mut Turn) -> StepFuture<'a> {
        Box::pin(async move {
            for _ in turn.messages() {
                let seen = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
                assert!(self.every == 0 || !seen.is_multiple_of(self.every), "a bad message");
            }
            Ok(Next::End)
        })
    }
}

/// Sources of so many messages.
pub(super) fn source(count: u64) -> Arc<dyn crate::actors::Factory> {
    factory(move |seed| {
        let left = seed.state.map(|state| serde_json::from_str(state.0.get()).unwrap());
        Ok(Box::new(Source { left: left.unwrap_or(count) }))
    })
}

pub(super) fn sink(seen: &Arc<AtomicUsize>, every: usize) -> Arc<dyn crate::actors::Factory> {
    let seen = Arc::clone(seen);
    factory(move |_| Ok(Box::new(Sink { seen: Arc::clone(&seen), every })))
}

pub(super) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("it takes too long")
}

/// Waits within a step for a second message, off its arbiter, and handles both.
pub(super) struct Pair;

impl Agent for Pair {
    fn step<'a>(&'a mut self, turn: &'a mut Turn) -> StepFuture<'a> {
        Box::pin(async move {
            let mut count = turn.messages().len();
            while count < 2 {
                count += turn.arrived().await?.len();
                turn.blocking(|| std::thread::sleep(Duration::from_millis(1))).await?;
            }
            Ok(Next::End)
        })
    }
}

/// Never ends its step.
pub(super) struct Stuck;

impl Agent for Stuck {
    fn step<'a>(&'a mut self, _: &'a mut Turn) -> StepFuture<'a> {
        Box::pin(std::future::pending())
    }
}
