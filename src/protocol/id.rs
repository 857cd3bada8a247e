//! Names of things: sessions, messages, labels, workspaces, moments.
//!
//! **Invariant**: an id or a label, once given, never names anything else. Ids are made outside
//! (version 7 UUIDs, or from a seed) and passed in.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Code, Refused};

/// The only address of a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(Uuid);

impl SessionId {
    /// The supervisor's own stream.
    pub const SUPERVISOR: SessionId = SessionId(Uuid::nil());

    /// From a UUID.
    pub const fn new(uuid: Uuid) -> Self {
        SessionId(uuid)
    }

    /// The UUID's 16 bytes, as frames store them.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }

    /// From the 16 bytes a frame stores.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        SessionId(Uuid::from_bytes(bytes))
    }

    /// The id as one number, for spreading sessions over arbiters.
    pub const fn as_u128(self) -> u128 {
        self.0.as_u128()
    }
}

/// Names one message, outside the process too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(Uuid);

impl MessageId {
    /// From a UUID.
    pub const fn new(uuid: Uuid) -> Self {
        MessageId(uuid)
    }
}

macro_rules! shown_as_uuid {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
        impl FromStr for $name {
            type Err = Refused;
            fn from_str(text: &str) -> Result<Self, Refused> {
                Uuid::try_parse(text).map($name).map_err(|_| {
                    Refused::new(Code::InvalidArgument, "an id is a UUID of 36 characters")
                })
            }
        }
    )*};
}
shown_as_uuid!(SessionId, MessageId);

/// Decoration for people: `[a-z0-9]+(-[a-z0-9]+)*`, 1 to 64 bytes. No address.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Label(Arc<str>);

impl Label {
    /// The longest label, in bytes.
    pub const MAX: usize = 64;
    /// Words that name parts of the bus itself.
    pub const RESERVED: [&'static str; 4] = ["supervisor", "operator", "system", "all"];

    /// Checks the grammar.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for anything outside the grammar, over the length, or reserved.
    pub fn new(text: &str) -> Result<Self, Refused> {
        let words_fine = text.split('-').all(|word| {
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        });
        if !words_fine || text.len() > Self::MAX || Self::RESERVED.contains(&text) {
            return Err(Refused::new(
                Code::InvalidArgument,
                "a label is 1 to 64 characters, lowercase letters and digits in words joined by \
                 single hyphens, and not a reserved word",
            ));
        }
        Ok(Label(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A group of sessions that may see each other: exact equality, nothing else.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Workspace(Arc<str>);

impl Workspace {
    /// The longest workspace, in bytes.
    pub const MAX: usize = 4_096;

    /// Checks the length and that there is no control character.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`.
    pub fn new(text: &str) -> Result<Self, Refused> {
        if text.is_empty() || text.len() > Self::MAX || text.chars().any(char::is_control) {
            return Err(Refused::new(
                Code::InvalidArgument,
                "a workspace is 1 to 4096 bytes of text without control characters",
            ));
        }
        Ok(Workspace(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! checked_text {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
        impl TryFrom<String> for $name {
            type Error = Refused;
            fn try_from(text: String) -> Result<Self, Refused> {
                $name::new(&text)
            }
        }
        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().to_owned()
            }
        }
    )*};
}
checked_text!(Label, Workspace);

/// A moment: milliseconds since 1970-01-01 UTC, or since the start of a simulation.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The moment `time` later.
    pub fn after(self, time: std::time::Duration) -> Self {
        Timestamp(self.0.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
    }
}
