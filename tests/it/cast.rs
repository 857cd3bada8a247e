//! The agents of the scenarios of the bus: each does one thing, most of them wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use callboard::bus::{Agent, AgentError, Factory, Next, Seed, StepFuture, Turn};
use callboard::protocol::session::AgentState;
use callboard::protocol::{Draft, SessionId};
use callboard::{Code, Error};
use serde_json::value::RawValue;
use tokio::sync::watch;

/// Handles everything.
pub(crate) struct Sink;

impl Agent for Sink {
    fn step<'a>(&'a mut self, _turn: &'a mut Turn) -> StepFuture<'a> {
        Box::pin(async { Ok(Next::End) })
    }
}

/// Sends every body back.
pub(crate) struct Echo;

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

/// What opens a gate.
pub(crate) type Gate = watch::Sender<bool>;

/// Does what it is told: `panic`, `fail`, `bloat` (a state that is too large), `hold` (waits for
/// the gate), `tell` (says how many messages it has handled before this one). Keeps that count.
pub(crate) struct Obedient {
    n_handled: u64,
    bloated: bool,
    gate: watch::Receiver<bool>,
}

impl Obedient {
    /// A factory, and the gate of all its agents.
    pub(crate) fn factory() -> (impl Factory, Gate) {
        let (opener, gate) = watch::channel(false);
        let factory = move |seed: Seed| -> Result<Box<dyn Agent>, AgentError> {
            let kept = seed.state.map_or(Ok(0), |state| state.0.get().parse());
            let n_handled = kept.map_err(|_| AgentError::new("STATE", "not a number"))?;
            Ok(Box::new(Obedient { n_handled, bloated: false, gate: gate.clone() }))
        };
        (factory, opener)
    }
}

impl Agent for Obedient {
    fn step<'a>(&'a mut self, turn: &'a mut Turn) -> StepFuture<'a> {
        Box::pin(async move {
            for item in turn.messages().to_vec() {
                match item.message.body.as_str() {
                    // No message of the hook: the tests' output stays readable.
                    "panic" => std::panic::resume_unwind(Box::new("told to panic")),
                    "fail" => return Err(AgentError::new("TOLD", "told to fail")),
                    "bloat" => self.bloated = true,
                    "hold" => drop(self.gate.wait_for(|open| *open).await),
                    "tell" => {
                        let text = self.n_handled.to_string();
                        turn.stage(Draft::text(item.from, text)).await?;
                    }
                    _ => {}
                }
                self.n_handled += 1;
            }
            Ok(Next::End)
        })
    }

    fn state(&self) -> Option<AgentState> {
        let text = self.n_handled.to_string();
        let text = if self.bloated { format!("\"{}\"", "x".repeat(1 << 20)) } else { text };
        Some(AgentState(RawValue::from_string(text).unwrap()))
    }
}

/// Sends so many numbered messages to whoever tells it how many, a few a turn, and keeps its place.
pub(crate) struct Source {
    /// To whom, sent so far, and how many in all.
    task: Option<(SessionId, u64, u64)>,
}

impl Source {
    pub(crate) fn factory() -> impl Factory {
        |seed: Seed| -> Result<Box<dyn Agent>, AgentError> {
            let task = seed.state.map(|state| serde_json::from_str(state.0.get()));
            let task = task.transpose().map_err(|_| AgentError::new("STATE", "not a task"))?;
            Ok(Box::new(Source { task }))
        }
    }
}

impl Agent for Source {
    fn step<'a>(&'a mut self, turn: &'a mut Turn) -> StepFuture<'a> {
        Box::pin(async move {
            if let Some(item) = turn.messages().first() {
                let count = item.message.body.as_str().parse();
                let count = count.map_err(|_| AgentError::new("COUNT", "not a number"))?;
                self.task = Some((item.from, 0, count));
            }
            let Some((to, sent, count)) = &mut self.task else { return Ok(Next::End) };
            for _ in 0..8 {
                if *sent == *count {
                    return Ok(Next::End);
                }
                match turn.stage(Draft::text(*to, format!("{sent}"))).await {
                    Ok(_) => *sent += 1,
                    Err(Error::Refused(refused)) if refused.code == Code::MailboxFull => break,
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(if *sent == *count { Next::End } else { Next::Again })
        })
    }

    fn state(&self) -> Option<AgentState> {
        let text = serde_json::to_string(self.task.as_ref()?).unwrap();
        Some(AgentState(RawValue::from_string(text).unwrap()))
    }
}

/// A factory that gives the same agent to everybody.
pub(crate) fn always<A: Agent>(agent: fn() -> A) -> impl Factory {
    move |_: Seed| -> Result<Box<dyn Agent>, AgentError> { Ok(Box::new(agent())) }
}

/// A factory of sinks that counts how many it has made.
pub(crate) fn counted(n_made: &Arc<AtomicUsize>) -> impl Factory {
    let n_made = Arc::clone(n_made);
    move |_: Seed| -> Result<Box<dyn Agent>, AgentError> {
        n_made.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Sink))
    }
}

/// A factory that never can.
pub(crate) fn never() -> impl Factory {
    |_: Seed| -> Result<Box<dyn Agent>, AgentError> { Err(AgentError::new("NEVER", "no agent")) }
}
