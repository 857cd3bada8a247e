//! What callers, committer and keeper share.
//!
//! **Invariant**: the public heads hold settled frames only; a fault, once set, stays until the
//! store is opened again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::heads::Heads;
use super::load::Loads;
use super::queue::Queue;
use super::room::Room;
use super::segment::{Segments, lock};
use crate::config::StoreConfig;
use crate::error::Fault;
use crate::persist::disk::Disk;
use crate::persist::store::{RecoveryReport, SnapshotsWanted};

/// See the file.
pub(crate) struct Core {
    pub(crate) config: StoreConfig,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) segments: Segments,
    pub(crate) public: Mutex<Public>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) loads: Loads,
    pub(crate) room: Arc<Room>,
    pub(crate) wanted: Arc<dyn SnapshotsWanted>,
    pub(crate) report: RecoveryReport,
    /// Bytes of log in use.
    pub(crate) used: AtomicU64,
    fault: Mutex<Option<Fault>>,
    has_fault: AtomicBool,
}

/// What readers see.
#[derive(Default)]
pub(crate) struct Public {
    pub(crate) heads: Heads,
    /// What is being read: lowest and highest position, by an arbitrary number.
    pins: BTreeMap<u64, (u64, u64)>,
    last_pin: u64,
}

/// Everything a core is made of that is not made by it.
pub(crate) struct Parts {
    pub(crate) config: StoreConfig,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) segments: Segments,
    pub(crate) heads: Heads,
    pub(crate) queue: Queue,
    pub(crate) wanted: Arc<dyn SnapshotsWanted>,
    pub(crate) report: RecoveryReport,
    pub(crate) fault: Option<Fault>,
}

impl Core {
    pub(crate) fn new(parts: Parts) -> Self {
        let room = Arc::new(Room::new(&parts.config, parts.segments.size));
        let queue = Arc::new(parts.queue);
        Core {
            config: parts.config,
            disk: parts.disk,
            segments: parts.segments,
            public: Mutex::new(Public { heads: parts.heads, ..Public::default() }),
            loads: Loads::new(Arc::clone(&room), Arc::clone(&queue)),
            queue,
            room,
            wanted: parts.wanted,
            report: parts.report,
            used: AtomicU64::new(0),
            has_fault: AtomicBool::new(parts.fault.is_some()),
            fault: Mutex::new(parts.fault),
        }
    }

    /// Why nothing can be written any more.
    pub(crate) fn fault(&self) -> Option<Fault> {
        if self.has_fault.load(Ordering::Acquire) { lock(&self.fault).clone() } else { None }
    }

    /// Nothing can be written from now on; the first reason stays.
    pub(crate) fn set_fault(&self, fault: Fault) {
        lock(&self.fault).get_or_insert(fault);
        self.has_fault.store(true, Ordering::Release);
    }
}

impl Public {
    /// Keeps segments between two positions from being freed; gives the pin's number.
    pub(crate) fn pin(&mut self, low: u64, high: u64) -> u64 {
        self.last_pin += 1;
        self.pins.insert(self.last_pin, (low, high));
        self.last_pin
    }

    /// Ends a pin.
    pub(crate) fn unpin(&mut self, pin: u64) {
        self.pins.remove(&pin);
    }

    /// Whether something between two positions is being read.
    pub(crate) fn is_pinned(&self, start: u64, stop: u64) -> bool {
        self.pins.values().any(|(low, high)| *low < stop && *high >= start)
    }
}
