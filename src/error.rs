//! What a caller can be told: refused, fault or ended, each with a permanent code.
//!
//! **Invariant**: a code, once released, never changes its spelling or its meaning; the list is
//! held by `tests/golden/error-codes.txt`. Texts carry no user content; "not allowed" and "not
//! there" are the same value, so that an answer tells nothing about strangers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Every failure of the public interface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A rule said no. Nothing happened: nothing was written, no quota was used.
    #[error("{0}")]
    Refused(#[from] Refused),
    /// The journal failed. With `NOT_DURABLE` what was asked may or may not be on disk, and
    /// reopening settles it.
    #[error("{0}")]
    Fault(#[from] Fault),
    /// What was waited for is over.
    #[error("{0}")]
    Ended(#[from] Ended),
}

impl Error {
    /// The permanent code.
    pub fn code(&self) -> Code {
        match self {
            Error::Refused(refused) => refused.code,
            Error::Fault(fault) => fault.code,
            Error::Ended(Ended::Closed) => Code::Closed,
            Error::Ended(Ended::TimedOut) => Code::TimedOut,
        }
    }
}

/// A rule said no. Shown with its code, its text and, where the rule is a limit, both numbers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {text}{}", self.numbers())]
pub struct Refused {
    /// Which rule.
    pub code: Code,
    /// What is wrong and what to do: lowercase, one sentence, no full stop, no user content.
    pub text: String,
    /// The bound that was met, in the unit of the limit, where the rule is a limit.
    pub limit: Option<u64>,
    /// What the request would have made of it.
    pub current: Option<u64>,
}

impl Refused {
    /// A refusal without a bound.
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Refused { code, text: text.into(), limit: None, current: None }
    }

    /// A refusal by a bound.
    pub fn over(code: Code, text: impl Into<String>, limit: u64, current: u64) -> Self {
        Refused { code, text: text.into(), limit: Some(limit), current: Some(current) }
    }

    fn numbers(&self) -> String {
        match (self.limit, self.current) {
            (Some(limit), Some(current)) => format!(" (limit {limit}, asked for {current})"),
            (Some(limit), None) => format!(" (limit {limit})"),
            (None, _) => String::new(),
        }
    }

    /// The one answer for a session that is missing, hidden or not allowed.
    pub fn not_found() -> Self {
        Refused::new(Code::NotFound, "no such session, or it may not be reached from here")
    }
}

/// The journal failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {text}")]
pub struct Fault {
    /// What kind of failure.
    pub code: Code,
    /// One sentence for a person: what is wrong and what to do.
    pub text: String,
}

impl Fault {
    /// A fault with its sentence.
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Fault { code, text: text.into() }
    }
}

/// What was waited for is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// The session or the bus is closed.
    #[error("CLOSED: the session or the bus is closed")]
    Closed,
    /// The time that the caller allowed is over.
    #[error("TIMED_OUT: the time allowed is over")]
    TimedOut,
}

/// The permanent codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum Code {
    /// No such session, or not allowed: one answer for both.
    NotFound,
    /// A session may not send to itself.
    SelfMessage,
    /// The target has as much pending mail as its limit allows.
    MailboxFull,
    /// The message with its envelope is over the limit.
    MessageTooLarge,
    /// As many sessions as the limit allows.
    SessionLimit,
    /// More sends in one turn than the limit allows.
    TurnLimit,
    /// The label is, or once was, in use.
    NameTaken,
    /// The id is, or once was, in use.
    IdTaken,
    /// An argument is malformed.
    InvalidArgument,
    /// The configuration is out of bounds; the text names every fault.
    InvalidConfig,
    /// Whoever asks has no say here any more: another handle drives the session, the handle was
    /// superseded, or the turn that it names is not open any more.
    StaleCaller,
    /// The directory belongs to another trace or scenario.
    WrongOrigin,
    /// Another process holds the data directory.
    StoreLocked,
    /// No room on the disk or in the log.
    StoreFull,
    /// The store cannot be written at present.
    StoreReadOnly,
    /// Unknown whether it is on disk: reopening settles it.
    NotDurable,
    /// The journal is damaged where this needs it.
    JournalCorrupt,
    /// The journal was written by a newer version.
    JournalVersion,
    /// The data directory cannot be used.
    StoreUnusable,
    /// The session or the bus is closed.
    Closed,
    /// The time allowed is over.
    TimedOut,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
