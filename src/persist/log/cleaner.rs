//! Which segments no replay needs, and who keeps the oldest from being freed.
//!
//! **Boundary**: decides, touches no file.

use std::collections::HashMap;

use super::core::Public;
use super::heads::{Entry, IdHash};
use super::segment::Segments;
use crate::protocol::SessionId;

/// Segments that a log may have beside twice its live bytes.
const SPARE: u64 = 4;
/// Sessions asked for a snapshot at once.
const ASKED_MAX: usize = 256;
/// The part of the log, from its old end, whose sessions are asked: one in this many segments.
const OLDEST: usize = 4;

/// What is to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Segments to be freed once the heads are saved.
    pub(crate) free: Vec<u64>,
    /// Sessions to be asked for a snapshot, and the lowest position each needs.
    pub(crate) wanted: Vec<(SessionId, u64)>,
}

/// Looks at the segments below `current`. What only quarantined sessions need is not held against
/// the log's bound: it cannot be freed. A log that is not over twice its live bytes is left
/// alone unless space is `short`.
pub(crate) fn plan(public: &Public, segments: &Segments, current: u64, short: bool) -> Plan {
    let old: Vec<u64> = segments.live().into_iter().filter(|number| *number < current).collect();
    let used = (old.len() as u64 + 1) * segments.size;
    let bound = 2 * public.heads.live_bytes() + SPARE * segments.size;
    if used <= bound && !short {
        return Plan::default();
    }
    let needed = needed_by(public, segments, &old, |_| true);
    let by_healthy = needed_by(public, segments, &old, |entry| !entry.quarantined);
    let by_quarantined_only =
        needed.iter().zip(&by_healthy).filter(|(all, healthy)| **all > 0 && **healthy == 0).count();
    let free: Vec<u64> = old
        .iter()
        .zip(&needed)
        .filter(|(number, n_sessions)| {
            let start = segments.start(**number);
            **n_sessions == 0 && !public.is_pinned(start, start + segments.size)
        })
        .map(|(number, _)| *number)
        .collect();
    let left = used - (free.len() + by_quarantined_only) as u64 * segments.size;
    let mut wanted = Vec::new();
    if left > bound || short {
        let oldest = old.get(old.len() / OLDEST).map_or(0, |number| number + 1);
        wanted = holders(public, segments, oldest);
    }
    Plan { free, wanted }
}

/// For each old segment the number of sessions, of those that count, whose replay may need it.
fn needed_by(
    public: &Public,
    segments: &Segments,
    old: &[u64],
    counts: impl Fn(&Entry) -> bool,
) -> Vec<i64> {
    let mut steps = vec![0_i64; old.len() + 1];
    let mut step = |position: u64, after: u64, by: i64| {
        let place = old.partition_point(|number| *number < segments.of(position) + after);
        if let Some(step) = steps.get_mut(place) {
            *step += by;
        }
    };
    for entry in public.heads.iter().filter(|entry| counts(entry)) {
        step(entry.low, 0, 1);
        step(entry.position, 1, -1);
    }
    let mut sum = 0;
    steps
        .iter()
        .take(old.len())
        .map(|step| {
            sum += step;
            sum
        })
        .collect()
}

/// The sessions that need segments below `oldest`, those of the oldest first, and the position
/// each of them needs.
fn holders(public: &Public, segments: &Segments, oldest: u64) -> Vec<(SessionId, u64)> {
    let mut holders: Vec<(u64, SessionId)> = public
        .heads
        .iter()
        .filter(|entry| !entry.quarantined && segments.of(entry.low) < oldest)
        .map(|entry| (entry.low, entry.session))
        .collect();
    if holders.len() > ASKED_MAX {
        holders.select_nth_unstable(ASKED_MAX);
        holders.truncate(ASKED_MAX);
    }
    holders.sort_unstable();
    holders.into_iter().map(|(low, session)| (session, low)).collect()
}

/// Who was asked and has not answered: nobody is asked twice for the same.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    sessions: HashMap<SessionId, u64, IdHash>,
    since: u64,
}

impl Asked {
    /// Those of `wanted` that are to be asked now. All are asked again when as much as the log
    /// holds, `used`, was carried since: `carried` counts.
    pub(crate) fn ask(
        &mut self,
        wanted: Vec<(SessionId, u64)>,
        carried: u64,
        used: u64,
    ) -> Vec<SessionId> {
        if carried - self.since >= used {
            self.since = carried;
            self.sessions.clear();
        }
        wanted
            .into_iter()
            .filter(|(session, low)| self.sessions.insert(*session, *low) != Some(*low))
            .map(|(session, _)| session)
            .collect()
    }
}
