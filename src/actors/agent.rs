//! Who thinks inside a session: the traits an embedding program implements.
//!
//! **Boundary**: no actix type in here. An agent is `Send` and made by a named factory, so that a
//! restart can make it again; what it must not forget is its [`Agent::state`].

use std::future::Future;
use std::pin::Pin;

use super::turn::Turn;
use crate::error::Error;
use crate::protocol::session::{AgentState, Failure};
use crate::protocol::{Label, SessionId};

/// What a step returns. It runs on the session's own arbiter and need not be `Send`.
pub type StepFuture<'a> = Pin<Box<dyn Future<Output = Result<Next, AgentError>> + 'a>>;

/// Thinks inside a session, step by step.
pub trait Agent: Send + 'static {
    /// One step of a turn. [`Turn::messages`] at the first step are what the turn took, at a later
    /// one what has arrived since.
    ///
    /// # Errors
    /// A failure ends the turn: nothing staged is sent, and its messages are tried again, one at a
    /// time, up to the limit of attempts. The agent is made again from its journaled state.
    fn step<'a>(&'a mut self, turn: &'a mut Turn) -> StepFuture<'a>;

    /// What is to be kept with the end of the turn; none: unchanged.
    fn state(&self) -> Option<AgentState> {
        None
    }
}

/// What is to follow a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// Another step, with what has arrived, which may be nothing.
    Step,
    /// The end of the turn. Where mail has arrived meanwhile, another step comes first.
    End,
    /// The end, and another turn even without mail: at once, or, where targets refused a send of
    /// this turn for want of room, as soon as one of them has some.
    Again,
}

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct AgentError {
    /// The agent's own code.
    pub code: String,
    /// What it says, for people; at most 500 characters are kept.
    pub message: String,
}

impl AgentError {
    /// An error with its code.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        AgentError { code: code.into(), message: message.into() }
    }
}

impl From<Error> for AgentError {
    fn from(error: Error) -> Self {
        AgentError { code: error.code().to_string(), message: error.to_string() }
    }
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        Failure { code: error.code, message: error.message }
    }
}

/// What a factory is given.
#[derive(Debug, Clone)]
pub struct Seed {
    /// The session.
    pub id: SessionId,
    /// Its label.
    pub label: Label,
    /// What the session was created with.
    pub settings: Option<AgentState>,
    /// The state that the last ended turn left.
    pub state: Option<AgentState>,
}

/// Makes agents: when a session starts, and again after a restart or a failure.
pub trait Factory: Send + Sync + 'static {
    /// Makes one.
    ///
    /// # Errors
    /// When the settings or the state do not suit: the session keeps its mail and takes no turn.
    fn make(&self, seed: Seed) -> Result<Box<dyn Agent>, AgentError>;
}

impl<F> Factory for F
where
    F: Fn(Seed) -> Result<Box<dyn Agent>, AgentError> + Send + Sync + 'static,
{
    fn make(&self, seed: Seed) -> Result<Box<dyn Agent>, AgentError> {
        self(seed)
    }
}
