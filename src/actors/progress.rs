//! What a bus has done since it was opened.
//!
//! **Invariant**: a figure is raised when the fact is durable; figures are for people and tests, no
//! rule reads them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::protocol::session::state::Counts;

/// The counters.
#[derive(Debug, Default)]
pub struct Counters {
    queued: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    handled: AtomicU64,
    dead: AtomicU64,
    duplicates: AtomicU64,
}

/// Figures since the bus was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Messages queued.
    pub queued: u64,
    /// Messages accepted.
    pub accepted: u64,
    /// Messages that their target refused.
    pub refused: u64,
    /// Messages handled.
    pub handled: u64,
    /// Accepted messages that are dead.
    pub dead: u64,
    /// Messages that were offered again after they were decided.
    pub duplicates: u64,
    /// The most rounds that a session had to wait for its turn on its arbiter, where a round is one
    /// drain of one session within its budget. Bounded by the sessions that are busy there, not by
    /// how much they have to do.
    pub rounds_waited_max: u64,
}

impl Counters {
    /// The figures as they are.
    pub fn read(&self) -> Progress {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Progress {
            queued: read(&self.queued),
            accepted: read(&self.accepted),
            refused: read(&self.refused),
            handled: read(&self.handled),
            dead: read(&self.dead),
            duplicates: read(&self.duplicates),
            rounds_waited_max: 0,
        }
    }

    /// One session's totals went from `before` to `after`, durably.
    pub(super) fn raise(&self, before: &Counts, after: &Counts) {
        let raise = |counter: &AtomicU64, before: u64, after: u64| {
            if after > before {
                counter.fetch_add(after - before, Ordering::Relaxed);
            }
        };
        raise(&self.queued, before.queued, after.queued);
        raise(&self.accepted, before.accepted, after.accepted);
        raise(&self.refused, before.refused, after.refused);
        raise(&self.handled, before.handled, after.handled);
        raise(&self.dead, before.dead, after.dead);
    }

    pub(super) fn raise_duplicates(&self, count: u64) {
        if count > 0 {
            self.duplicates.fetch_add(count, Ordering::Relaxed);
        }
    }
}
