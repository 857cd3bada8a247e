//! Loads: under which number a session's frames may be written, and when that ends.
//!
//! **Invariant**: a session has at most one load that has not ended; a number is never used twice.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::heads::Slot;
use super::queue::Queue;
use super::room::Room;
use super::segment::lock;
use crate::error::{Code, Fault};
use crate::persist::store::{Charge, Giver, Load, Tickets};
use crate::protocol::SessionId;
use crate::protocol::hash::IdHash;

const OPEN: u8 = 0;
const ENDING: u8 = 1;
const FAILED: u8 = 2;
const OVER: u8 = 3;

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
    room: Arc<Room>,
    queue: Arc<Queue>,
}

impl Giver for LoadCell {
    fn give_back(&self, charge: Charge) {
        if self.room.give_back(self, charge) {
            self.queue.poke();
        }
    }
}

impl LoadCell {
    /// No append may be asked for any more.
    pub(crate) fn begin_to_end(&self) {
        self.state.fetch_max(ENDING, Ordering::Release);
    }

    /// A ticket failed: every later frame is refused.
    pub(crate) fn fail(&self) {
        self.state.fetch_max(FAILED, Ordering::Release);
    }

    /// Whether a ticket failed or the end was reached.
    pub(crate) fn has_failed(&self) -> bool {
        self.state.load(Ordering::Acquire) >= FAILED
    }

    /// Whether the end was said: nobody is told any more.
    pub(crate) fn is_over(&self) -> bool {
        self.state.load(Ordering::Acquire) == OVER
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
pub(crate) struct Loads {
    /// In shards, for every arbiter looks here before each frame.
    shards: [Mutex<Shard>; N_SHARDS],
    last: AtomicU64,
    room: Arc<Room>,
    queue: Arc<Queue>,
}

type Shard = HashMap<SessionId, Arc<LoadCell>, IdHash>;

const N_SHARDS: usize = 64;

impl Loads {
    /// Loads whose permits are charged to `room`, and whose committer waits at `queue`.
    pub(crate) fn new(room: Arc<Room>, queue: Arc<Queue>) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Loads { shards, last: AtomicU64::new(0), room, queue }
    }

    fn shard(&self, session: SessionId) -> MutexGuard<'_, Shard> {
        let place = session.as_u128() as usize % N_SHARDS;
        #[expect(clippy::indexing_slicing, reason = "the place is below the length")]
        lock(&self.shards[place])
    }

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
        let mut cells = self.shard(session);
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
            room: Arc::clone(&self.room),
            queue: Arc::clone(&self.queue),
        };
        cells.insert(session, Arc::new(cell));
        Ok(load)
    }

    /// The cell of a load that has not ended.
    pub(crate) fn get(&self, load: Load) -> Option<Arc<LoadCell>> {
        self.shard(load.session).get(&load.session).filter(|cell| cell.load == load).cloned()
    }

    /// The load has ended: the next may begin.
    pub(crate) fn remove(&self, load: Load) {
        let mut cells = self.shard(load.session);
        if let Some(cell) = cells.get(&load.session).filter(|cell| cell.load == load) {
            cell.state.store(OVER, Ordering::Release);
            cells.remove(&load.session);
        }
    }
}

/// What an append of an ended load is told.
pub(crate) fn has_ended() -> Fault {
    Fault::new(Code::NotDurable, "the load has ended, nothing of it is written any more")
}
