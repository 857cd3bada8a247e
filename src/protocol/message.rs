//! What is sent: drafts, messages, their source and their body.
//!
//! **Invariant**: routing never reads a body, and a body leaves as it came, byte for byte.

use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::id::{Label, MessageId, SessionId, Timestamp};
use crate::error::{Code, Refused};

/// What a caller wants sent. The runtime stamps the source.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The target.
    pub to: SessionId,
    /// The content.
    pub body: Body,
    /// The message this one was caused by, if any: its hop count goes on from there.
    pub cause: Option<MessageId>,
}

impl Draft {
    /// Text for a target.
    pub fn text(to: SessionId, text: impl Into<String>) -> Self {
        Draft { to, body: Body::Text(text.into()), cause: None }
    }

    /// JSON for a target, kept as it came: duplicate keys and number spelling survive.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when the text is not one JSON value.
    pub fn json(to: SessionId, json: impl Into<String>) -> Result<Self, Refused> {
        Ok(Draft { to, body: Body::json(json)?, cause: None })
    }
}

/// The content of a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// UTF-8 text.
    Text(String),
    /// One JSON value, raw.
    Json(Box<RawValue>),
}

impl Body {
    /// One JSON value, kept as it came but for blanks around it.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when the text is not one JSON value.
    pub fn json(json: impl Into<String>) -> Result<Self, Refused> {
        RawValue::from_string(json.into())
            .map(Body::Json)
            .map_err(|_| Refused::new(Code::InvalidArgument, "the body is not one JSON value"))
    }

    /// The text, or the JSON as text.
    pub fn as_str(&self) -> &str {
        match self {
            Body::Text(text) => text,
            Body::Json(json) => json.get(),
        }
    }
}

impl Body {
    /// The length of the body as JSON, in bytes, as the journal stores it.
    pub fn stored_len(&self) -> usize {
        match self {
            Body::Text(text) => 2 + text.len() + escapes(text.as_bytes()),
            Body::Json(json) => json.get().len(),
        }
    }
}

/// How many bytes the escapes of a text add to it. Written without branches, for it is asked of
/// every body several times: 5 for a control character, of which those with a short escape need
/// only 1, and 1 for a quote or a backslash.
fn escapes(text: &[u8]) -> usize {
    let added = |byte: &u8| {
        let control = u32::from(*byte < 0x20);
        let short = u32::from(matches!(*byte, 0x08 | 0x09 | 0x0a | 0x0c | 0x0d));
        let marked = u32::from(*byte == b'"') | u32::from(*byte == b'\\');
        5 * control - 4 * short + marked
    };
    // A chunk's sum fits, however large the text is.
    let chunks = text.chunks(4_096).map(|chunk| chunk.iter().map(added).sum::<u32>() as usize);
    chunks.sum()
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Body::Text(one), Body::Text(two)) => one == two,
            (Body::Json(one), Body::Json(two)) => one.get() == two.get(),
            (Body::Text(_), Body::Json(_)) | (Body::Json(_), Body::Text(_)) => false,
        }
    }
}

impl Eq for Body {}

/// What kind of party a message comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// The agent of a session, in a turn.
    Agent,
    /// Whoever drives a session from outside.
    Driver,
}

/// Where a message comes from; stamped by the runtime, never taken from a caller's arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The kind of party.
    pub kind: SourceKind,
    /// The sending session.
    pub sender: SessionId,
    /// Its label when it sent.
    pub name: Label,
    /// What this answers or asks, later: the id of an ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<MessageId>,
    /// How many messages caused this one, in a row.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hop: u32,
}

fn is_zero(hop: &u32) -> bool {
    *hop == 0
}

/// One message, as it is stored and delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Its name.
    pub id: MessageId,
    /// Where it comes from.
    pub source: Source,
    /// When it was sent.
    pub sent: Timestamp,
    /// The content.
    pub body: Body,
}

/// By the name alone: a name is given once.
impl Hash for Message {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.id.hash(hasher);
    }
}

impl Message {
    /// What the envelope counts for in [`Message::size`], in bytes.
    pub const ENVELOPE: usize = 512;

    /// The size with the envelope as the journal stores it, in bytes, never less: the body's JSON
    /// text plus a constant for everything around it, the same when writing and reading.
    pub fn size(&self) -> usize {
        Self::ENVELOPE + self.body.stored_len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_length_of_a_text_is_the_length_of_its_json() {
        let all: String = (0..=0x2ff).filter_map(char::from_u32).collect();
        for text in ["", "plain", "\u{1f600}\"\\", &all, &all.repeat(50)] {
            let stored = Body::Text(text.to_owned()).stored_len();
            assert_eq!(stored, serde_json::to_string(text).unwrap().len(), "{text:?}");
        }
    }
}
