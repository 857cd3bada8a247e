//! How long to wait before something is tried again.
//!
//! **Invariant**: the wait is doubled with each try, up to a bound, and never overflows.

use std::time::Duration;

/// The wait is doubled at most this often.
const DOUBLINGS_MAX: u32 = 6;

/// The wait after so many tries.
pub(crate) fn backoff(first: Duration, tries: u32) -> Duration {
    first.saturating_mul(2_u32.pow(tries.min(DOUBLINGS_MAX)))
}
