//! Loads: under which number a session's frames may be written, and when that ends.
//!
//! **Invariant**: a session has at most one load that has not ended; a number is never used twice.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::heads::{IdHash, Slot};
use super::segment::lock;
use crate::error::{Code, Fault};
use crate::persist::store::{Load, Tickets};
use crate::protocol::SessionId;

const OPEN: u8 = 0;
const ENDING: u8 = 1;
const FAILED: u8 = 2;

/// One load, shared by its permits, its appends and the committer.
pub(crate) struct LoadCell {
    pub(crate) load: Load,
    pub(crate) slot: Slot,
    pub(crate) tickets: Arc<dyn Tickets>,
    /// Payload bytes on their way.
    pub(crate) bytes: AtomicUsize,
    /// Whether it waits to be told of room.
    pub(crate) waiting: AtomicBool,
    state: AtomicU8,
    group: AtomicU64,
    place: AtomicU32,
}

impl LoadCell {
    /// No append may be asked for any more.
    pub(crate) fn begin_to_end(&self) {
        self.state.fetch_max(ENDING, Ordering::Release);
    }

    /// A ticket failed: every later frame is refused.
    pub(crate) fn fail(&self) {
        self.state.store(FAILED, Ordering::Release);
    }

    /// Whether a ticket failed or the end was reached.
    pub(crate) fn has_failed(&self) -> bool {
        self.state.load(Ordering::Acquire) == FAILED
    }

    /// Whether permits are given.
    pub(crate) fn is_open(&self) -> bool {
        self.state.load(Ordering::Acquire) == OPEN
    }

    /// Its place among the settlements of the group `number`, if it has one.
    pub(crate) fn place_in(&self, number: u64) -> Option<usize> {
        (self.group.load(Ordering::Relaxed) == number)
            .then(|| self.place.load(Ordering::Relaxed) as usize)
    }

    /// Remembers its place among the settlements of the group `number`.
    pub(crate) fn set_place(&self, number: u64, place: usize) {
        self.group.store(number, Ordering::Relaxed);
        self.place.store(place as u32, Ordering::Relaxed);
    }
}

/// The loads that have not ended.
#[derive(Default)]
pub(crate) struct Loads {
    cells: Mutex<HashMap<SessionId, Arc<LoadCell>, IdHash>>,
    last: AtomicU64,
}

impl Loads {
    /// Begins a load.
    ///
    /// # Errors
    /// `STORE_UNUSABLE` while the session's load before has not ended.
    pub(crate) fn begin(
        &self,
        session: SessionId,
        slot: Slot,
        tickets: Arc<dyn Tickets>,
    ) -> Result<Load, Fault> {
        let mut cells = lock(&self.cells);
        if cells.contains_key(&session) {
            return Err(Fault::new(
                Code::StoreUnusable,
                "the session is loaded already; its load must end before the next begins",
            ));
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let load = Load { session, number };
        let cell = LoadCell {
            load,
            slot,
            tickets,
            bytes: AtomicUsize::new(0),
            waiting: AtomicBool::new(false),
            state: AtomicU8::new(OPEN),
            group: AtomicU64::new(0),
            place: AtomicU32::new(0),
        };
        cells.insert(session, Arc::new(cell));
        Ok(load)
    }

    /// The cell of a load that has not ended.
    pub(crate) fn get(&self, load: Load) -> Option<Arc<LoadCell>> {
        lock(&self.cells).get(&load.session).filter(|cell| cell.load == load).cloned()
    }

    /// The load has ended: the next may begin.
    pub(crate) fn remove(&self, load: Load) {
        let mut cells = lock(&self.cells);
        if cells.get(&load.session).is_some_and(|cell| cell.load == load) {
            cells.remove(&load.session);
        }
    }
}

/// What an append of an ended load is told.
pub(crate) fn has_ended() -> Fault {
    Fault::new(Code::NotDurable, "the load has ended, nothing of it is written any more")
}
