//! Settings and states as the journal keeps them: one JSON value.
//!
//! **Boundary**: what does not read back is an error of the agent, never a default.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::to_raw_value;

use crate::bus::AgentError;
use crate::error::{Code, Error, Refused};
use crate::protocol::session::AgentState;

/// A value as settings or state.
///
/// # Errors
/// `INVALID_ARGUMENT` for a value that has no JSON form.
pub fn kept(value: &impl Serialize) -> Result<AgentState, Error> {
    let refused = |_| Refused::new(Code::InvalidArgument, "this value has no JSON form");
    Ok(to_raw_value(value).map(AgentState).map_err(refused)?)
}

/// The value of what was kept.
pub(super) fn read<T: DeserializeOwned>(kept: &AgentState, of: &str) -> Result<T, AgentError> {
    serde_json::from_str(kept.0.get())
        .map_err(|error| AgentError::new("UNREADABLE", format!("the {of} does not read: {error}")))
}

/// The settings, which must be there.
pub(super) fn settings<T: DeserializeOwned>(kept: Option<&AgentState>) -> Result<T, AgentError> {
    let missing = || AgentError::new("NO_SETTINGS", "this agent needs settings");
    read(kept.ok_or_else(missing)?, "settings")
}
