//! What is known of every session without reading its frames.
//!
//! **Invariant**: an entry is a fold over the session's frames in log order, the same while they
//! are written, while the log is scanned, and when it is read from the saved heads.

use std::collections::{BTreeMap, HashMap};

use super::frame::{FrameHeader, Part};
use crate::protocol::SessionId;
use crate::protocol::hash::IdHash;

/// A session's place in the table; never changes while the store is open.
pub(crate) type Slot = u32;

/// What is known of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) session: SessionId,
    /// Its newest frame; 0 while it has none.
    pub(crate) position: u64,
    /// The lowest position its replay needs.
    pub(crate) low: u64,
    /// First part of its last complete snapshot; 0 without one.
    pub(crate) snapshot: u64,
    /// What that snapshot is the state after.
    pub(crate) as_of: u64,
    /// Bytes of the frames its replay needs.
    pub(crate) bytes: u64,
    pub(crate) pending: bool,
    pub(crate) quarantined: bool,
}

/// A snapshot of several parts whose last is not there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) as_of: u64,
    pub(crate) first: u64,
    /// The part that comes next.
    pub(crate) next: u32,
    pub(crate) bytes: u64,
}

/// One frame, as far as heads look at it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    pub(crate) position: u64,
    pub(crate) size: u64,
    pub(crate) pending: bool,
    pub(crate) part: Option<Part>,
}

impl From<&FrameHeader> for Link {
    fn from(frame: &FrameHeader) -> Self {
        Link {
            position: frame.position,
            size: frame.size() as u64,
            pending: frame.pending,
            part: frame.part,
        }
    }
}

/// The table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heads {
    index: HashMap<SessionId, Slot, IdHash>,
    entries: Vec<Entry>,
    attempts: BTreeMap<Slot, Attempt>,
    live_bytes: u64,
}

impl Heads {
    /// The session's slot, made if it is new.
    pub(crate) fn slot(&mut self, session: SessionId) -> Slot {
        let entries = &mut self.entries;
        *self.index.entry(session).or_insert_with(|| {
            entries.push(Entry {
                session,
                position: 0,
                low: 0,
                snapshot: 0,
                as_of: 0,
                bytes: 0,
                pending: false,
                quarantined: false,
            });
            (entries.len() - 1) as Slot
        })
    }

    /// The entry of a session that has frames.
    pub(crate) fn get(&self, session: SessionId) -> Option<&Entry> {
        let slot = *self.index.get(&session)?;
        self.entries.get(slot as usize).filter(|entry| entry.position != 0)
    }

    /// The newest frame of a slot; 0 for none.
    pub(crate) fn position(&self, slot: Slot) -> u64 {
        self.entries.get(slot as usize).map_or(0, |entry| entry.position)
    }

    /// All sessions with frames.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.position != 0)
    }

    /// All sessions with frames and all unfinished snapshots, as they are saved.
    pub(crate) fn export(&self) -> (Vec<Entry>, Vec<(SessionId, Attempt)>) {
        let attempts = self.attempts.iter().filter_map(|(slot, attempt)| {
            Some((self.entries.get(*slot as usize)?.session, *attempt))
        });
        (self.iter().copied().collect(), attempts.collect())
    }

    /// The table that was saved.
    pub(crate) fn import(entries: Vec<Entry>, attempts: Vec<(SessionId, Attempt)>) -> Self {
        let mut heads = Heads::default();
        heads.entries.reserve(entries.len());
        heads.index.reserve(entries.len());
        for entry in entries {
            heads.restore(entry);
        }
        for (session, attempt) in attempts {
            let slot = heads.slot(session);
            heads.attempts.insert(slot, attempt);
        }
        heads
    }

    /// Slots in use.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes that all replays together need.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    fn restore(&mut self, entry: Entry) {
        let slot = self.slot(entry.session);
        if let Some(place) = self.entries.get_mut(slot as usize) {
            *place = entry;
            if !entry.quarantined {
                self.live_bytes += entry.bytes;
            }
        }
    }

    /// A frame was found or became durable.
    pub(crate) fn apply(&mut self, slot: Slot, link: Link) {
        let Some(entry) = self.entries.get_mut(slot as usize) else { return };
        let before = entry.bytes;
        if entry.position == 0 {
            entry.low = link.position;
        }
        entry.position = link.position;
        entry.pending = link.pending;
        entry.bytes += link.size;
        match link.part {
            None if self.attempts.is_empty() => {}
            None => {
                self.attempts.remove(&slot);
            }
            Some(part) => take_part(entry, &mut self.attempts, slot, link, part),
        }
        if !entry.quarantined {
            self.live_bytes = self.live_bytes + entry.bytes - before;
        }
    }

    /// Damage keeps a session from being replayed.
    pub(crate) fn quarantine(&mut self, session: SessionId) {
        let slot = self.slot(session);
        let Some(entry) = self.entries.get_mut(slot as usize) else { return };
        if !entry.quarantined {
            entry.quarantined = true;
            self.live_bytes = self.live_bytes.saturating_sub(entry.bytes);
        }
    }

    /// A damaged frame of `session` was found at `position`; it is its newest so far.
    pub(crate) fn damaged(&mut self, session: SessionId, position: u64) {
        let slot = self.slot(session);
        if let Some(entry) = self.entries.get_mut(slot as usize) {
            if entry.position == 0 {
                entry.low = position;
            }
            entry.position = position;
        }
        self.attempts.remove(&slot);
    }
}

fn take_part(
    entry: &mut Entry,
    attempts: &mut BTreeMap<Slot, Attempt>,
    slot: Slot,
    link: Link,
    part: Part,
) {
    let fresh = Attempt { as_of: part.as_of, first: link.position, next: 0, bytes: 0 };
    let mut attempt = match attempts.remove(&slot) {
        Some(attempt) if part.part != 0 => attempt,
        Some(_) | None if part.part == 0 => fresh,
        Some(_) | None => return,
    };
    if attempt.as_of != part.as_of || attempt.next != part.part {
        return;
    }
    attempt.next += 1;
    attempt.bytes += link.size;
    if attempt.next < part.parts {
        attempts.insert(slot, attempt);
        return;
    }
    entry.snapshot = attempt.first;
    entry.as_of = attempt.as_of;
    entry.low = attempt.first;
    entry.bytes = attempt.bytes;
}
