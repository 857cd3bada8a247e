//! A scenario: agents and who is linked with whom, read from TOML.
//!
//! **Invariant**: a scenario is checked whole before anything is made of it; every fault names its
//! line and column. Unknown keys are faults, so a later key is never silently ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::scenario_check;
use super::scenario_words::sentence;
use super::trace::content_hash;
use crate::agents::source;
use crate::config::Config;
use crate::protocol::{Label, Message, Workspace};

/// The label of the session that starts the sources; no agent may have it.
pub const STARTER: &str = "starter";

/// Sessions that one scenario may have.
pub const SESSIONS_MAX: usize = 10_000;

/// Everything that a run needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// What it is called.
    pub name: String,
    /// The workspace of all its sessions.
    pub workspace: Workspace,
    /// Its agents, one a session.
    pub agents: Vec<Cast>,
    /// Pairs of labels that may talk, the lower first.
    pub pairs: BTreeSet<(Label, Label)>,
    /// Groups in which all may talk to all.
    pub groups: BTreeMap<Label, BTreeSet<Label>>,
    /// The limits it sets.
    pub limits: ScenarioLimits,
    hash: String,
}

/// One session of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cast {
    /// Its label.
    pub label: Label,
    /// The agent inside.
    pub role: Role,
}

/// What an agent does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// Sends each message back.
    Echo,
    /// Sends each message on.
    Relay {
        /// To all of these.
        to: Vec<Label>,
    },
    /// Sends numbered messages once it is started.
    Source {
        /// To these in turn.
        to: Vec<Label>,
        /// How many.
        messages: u64,
        /// Bytes of each body.
        bytes: usize,
        /// How many a turn.
        burst: usize,
    },
    /// Handles whatever comes.
    Sink,
}

impl Role {
    /// The size of the largest message that it makes, with its envelope, in bytes.
    pub(super) fn message_max(&self) -> Option<usize> {
        let Role::Source { messages, bytes, .. } = self else { return None };
        // A text of printable letters is stored with two quotes around it.
        let body = source::longest_body(*messages, *bytes);
        Some(Message::ENVELOPE.saturating_add(body).saturating_add(2))
    }

    /// Whom it sends to of its own accord.
    pub fn targets(&self) -> impl Iterator<Item = &Label> {
        match self {
            Role::Relay { to } | Role::Source { to, .. } => to.as_slice(),
            Role::Echo | Role::Sink => &[],
        }
        .iter()
    }
}

/// Why a text is no scenario: one sentence, with line and column where there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(pub String);

impl Unfit {
    pub(super) fn at(text: &str, offset: usize, what: &str) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        Unfit(format!("line {line}, column {column}: {what}"))
    }
}

impl Scenario {
    /// Reads and checks a scenario that will run with the default limits and its own.
    ///
    /// # Errors
    /// As [`Scenario::parse_for`].
    pub fn parse(text: &str) -> Result<Self, Unfit> {
        Self::parse_for(text, &Config::default())
    }

    /// Reads and checks a scenario that will run with these limits and its own.
    ///
    /// # Errors
    /// [`Unfit`] for text that is not TOML, an unknown or missing key, a name that names nobody, a
    /// target without a link, sessions that send in a circle, limits out of bounds, and messages or
    /// settings over the limits.
    pub fn parse_for(text: &str, config: &Config) -> Result<Self, Unfit> {
        let read: File = toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            Unfit::at(text, offset, &sentence(error.message()))
        })?;
        let mut config = config.clone();
        read.limits.raise(&mut config);
        limits_fit(text, &config)?;
        let checked = scenario_check::check(text, &read, &config.limits)?;
        Ok(Scenario {
            name: read.run.name,
            workspace: checked.workspace,
            agents: checked.agents,
            pairs: checked.pairs,
            groups: checked.groups,
            limits: read.limits,
            hash: hash(text),
        })
    }

    /// A hash of what the scenario says, without its `[limits]`, which may change between two runs
    /// of one data directory; comments, blanks and the order of keys do not count.
    pub fn hash(&self) -> String {
        self.hash.clone()
    }
}

/// Whether the limits are in their bounds; the first one that is not is named with its place.
fn limits_fit(text: &str, config: &Config) -> Result<(), Unfit> {
    let faults = config.faults();
    let Some(first) = faults.first() else { return Ok(()) };
    let Places { limits } = toml::from_str(text).unwrap_or_default();
    let placed = faults.iter().find_map(|fault| {
        let place = limits.get(fault.split(' ').next()?)?;
        Some(Unfit::at(text, place.span().start, fault))
    });
    Err(placed.unwrap_or_else(|| Unfit(format!("[limits]: {first}"))))
}

/// Where each limit stands.
#[derive(Default, Deserialize)]
struct Places {
    #[serde(default)]
    limits: BTreeMap<String, Spanned<toml::Value>>,
}

fn hash(text: &str) -> String {
    let mut table: toml::Table = toml::from_str(text).unwrap_or_default();
    table.remove("limits");
    content_hash(serde_json::to_string(&table).unwrap_or_default().as_bytes())
}

/// The tables of a scenario, as they are written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) run: RunTable,
    pub(super) agents: Vec<AgentTable>,
    #[serde(default)]
    pub(super) links: Vec<Spanned<LinkTable>>,
    #[serde(default)]
    limits: ScenarioLimits,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunTable {
    pub(super) name: String,
    #[serde(default)]
    pub(super) workspace: Option<Spanned<String>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentTable {
    pub(super) label: Spanned<String>,
    pub(super) agent: Spanned<Kind>,
    #[serde(default)]
    pub(super) count: Option<Spanned<u32>>,
    #[serde(default)]
    pub(super) to: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    pub(super) messages: Option<Spanned<u64>>,
    #[serde(default)]
    pub(super) bytes: Option<Spanned<usize>>,
    #[serde(default)]
    pub(super) burst: Option<Spanned<usize>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Echo,
    Relay,
    Source,
    Sink,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkTable {
    #[serde(default)]
    pub(super) pair: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    pub(super) group: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) members: Option<Vec<Spanned<String>>>,
}

/// The limits that a scenario may set; what it leaves out keeps its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioLimits {
    /// [`crate::config::Limits::pending_max`].
    pub pending_max: Option<u64>,
    /// [`crate::config::Limits::message_max`].
    pub message_max: Option<usize>,
    /// [`crate::config::Limits::window`].
    pub window: Option<u64>,
    /// [`crate::config::Limits::steers_max`].
    pub steers_max: Option<usize>,
    /// [`crate::config::Limits::sends_per_turn`].
    pub sends_per_turn: Option<usize>,
    /// [`crate::config::Limits::attempts_max`].
    pub attempts_max: Option<u32>,
    /// [`crate::config::Limits::agent_state_max`].
    pub agent_state_max: Option<usize>,
    /// [`crate::config::Limits::retry_backoff`], in milliseconds.
    pub retry_backoff_ms: Option<u64>,
    /// [`crate::config::Limits::resend_after`], in milliseconds.
    pub resend_after_ms: Option<u64>,
    /// [`crate::config::StoreConfig::snapshot_every`].
    pub snapshot_every: Option<u64>,
}

impl ScenarioLimits {
    /// Puts the limits that are set into `config`.
    pub fn raise(&self, config: &mut Config) {
        let (limits, store) = (&mut config.limits, &mut config.store);
        set(&mut limits.pending_max, self.pending_max);
        set(&mut limits.message_max, self.message_max);
        set(&mut limits.window, self.window);
        set(&mut limits.steers_max, self.steers_max);
        set(&mut limits.sends_per_turn, self.sends_per_turn);
        set(&mut limits.attempts_max, self.attempts_max);
        set(&mut limits.agent_state_max, self.agent_state_max);
        set(&mut limits.retry_backoff, self.retry_backoff_ms.map(Duration::from_millis));
        set(&mut limits.resend_after, self.resend_after_ms.map(Duration::from_millis));
        set(&mut store.snapshot_every, self.snapshot_every);
    }
}

fn set<T>(limit: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *limit = value;
    }
}
