//! Which segments no replay needs, and who keeps the oldest from being freed.
//!
//! **Boundary**: decides, touches no file.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::core::Public;
use super::heads::Entry;
use super::segment::Segments;
use crate::protocol::SessionId;
use crate::protocol::hash::IdHash;

/// Segments that a log may have beside twice its live bytes.
const SPARE: u64 = 4;
/// What a session counts at least, in bytes, of what is asked for at once: about a segment.
const ASKED_LEAST: u64 = 1_024;
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
pub(crate) fn plan(
    public: &Public,
    segments: &Segments,
    asked: &Asked,
    (current, short): (u64, bool),
) -> Plan {
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
        wanted = holders(public, segments, asked, oldest);
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

/// The sessions that need segments below `oldest` and are not asked already, those of the oldest
/// first, and the position each of them needs: as many as carry about a segment.
fn holders(
    public: &Public,
    segments: &Segments,
    asked: &Asked,
    oldest: u64,
) -> Vec<(SessionId, u64)> {
    let mut holders: BinaryHeap<Reverse<(u64, SessionId, u64)>> = public
        .heads
        .iter()
        .filter(|entry| !entry.quarantined && segments.of(entry.low) < oldest)
        .filter(|entry| !asked.waits_for(entry.session, entry.low))
        .map(|entry| Reverse((entry.low, entry.session, entry.bytes.max(ASKED_LEAST))))
        .collect();
    let (mut wanted, mut bytes) = (Vec::new(), 0);
    while bytes < segments.size
        && let Some(Reverse((low, session, needs))) = holders.pop()
    {
        wanted.push((session, low));
        bytes += needs;
    }
    wanted
}

/// Who was asked and has not answered: nobody is asked twice for the same.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    sessions: HashMap<SessionId, u64, IdHash>,
    since: u64,
}

impl Asked {
    /// A round begins. All are asked again when as much as the log holds, `used`, was carried
    /// since: `carried` counts.
    pub(crate) fn begin(&mut self, carried: u64, used: u64) {
        if carried - self.since >= used {
            self.since = carried;
            self.sessions.clear();
        }
    }

    /// Whether the session was asked already while it needed `low`.
    fn waits_for(&self, session: SessionId, low: u64) -> bool {
        self.sessions.get(&session) == Some(&low)
    }

    /// Notes who is asked now.
    pub(crate) fn note(&mut self, wanted: Vec<(SessionId, u64)>) -> Vec<SessionId> {
        self.sessions.extend(wanted.iter().copied());
        wanted.into_iter().map(|(session, _)| session).collect()
    }
}
