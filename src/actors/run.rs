//! One step of an agent, as a future that gives the agent back.
//!
//! **Invariant**: a panic of the agent ends here and becomes an error with code `PANIC`.

use std::any::Any;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use super::agent::{Agent, AgentError, Next};
use super::turn::Turn;
use crate::protocol::session::state::Item;

/// A step that runs.
pub(super) struct Run {
    pub(super) turn: u64,
    /// What has arrived and the agent has not seen.
    pub(super) arrivals: Rc<RefCell<Vec<Item>>>,
    pub(super) future: Pin<Box<dyn Future<Output = Stepped>>>,
}

/// A step that is done.
pub(super) struct Stepped {
    pub(super) agent: Box<dyn Agent>,
    pub(super) turn: Box<Turn>,
    pub(super) result: Result<Next, AgentError>,
}

/// Begins a step.
pub(super) fn step(mut agent: Box<dyn Agent>, mut turn: Box<Turn>) -> Run {
    let (number, arrivals) = (turn.number(), turn.arrivals());
    let future = Box::pin(async move {
        let result = {
            let mut step = pin!(async { agent.step(&mut turn).await });
            poll_fn(|task| match catch_unwind(AssertUnwindSafe(|| step.as_mut().poll(task))) {
                Ok(polled) => polled,
                Err(panic) => Poll::Ready(Err(panicked(&*panic))),
            })
            .await
        };
        Stepped { agent, turn, result }
    });
    Run { turn: number, arrivals, future }
}

/// What a panic says.
pub(super) fn panicked(panic: &(dyn Any + Send)) -> AgentError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    AgentError::new("PANIC", text.unwrap_or_else(|| "the agent panicked".to_owned()))
}
