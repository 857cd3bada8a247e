//! Where time and fresh ids come from.
//!
//! **Boundary**: nothing else in the life asks the system for the time of day or for chance, so
//! that a simulation can give both.

use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::protocol::Timestamp;

/// Time and fresh ids.
pub trait Clock: Send + Sync + 'static {
    /// The moment, in milliseconds. Never decides order.
    fn now(&self) -> Timestamp;
    /// An id that was never given before.
    fn fresh(&self) -> Uuid;
}

/// The system's clock and version 7 UUIDs.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn fresh(&self) -> Uuid {
        Uuid::now_v7()
    }
}
