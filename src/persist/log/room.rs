//! Room for appends: slots, bytes, each load's share, and log space with its reserves.
//!
//! **Invariant**: what a permit took is given back exactly once, when the permit is dropped. A
//! permit larger than a bound is charged the bound, so that it can be had when all is quiet.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::calls::Calls;
use super::group::BLOCK;
use super::load::LoadCell;
use super::segment::lock;
use crate::config::StoreConfig;
use crate::error::{Code, Fault};
use crate::persist::store::{Charge, Purpose};

/// Bytes of log for a frame beside its payload, about.
const FRAME_COST: u64 = 112;

/// One load has at most one in this many of the slots.
const SLOTS_PER_SHARE: usize = 4;

/// What is free and what is taken.
pub(crate) struct Room {
    slots_max: usize,
    bytes_max: usize,
    share_max: usize,
    /// What a frame is charged at least of a load's share: a quarter of the slots is the most
    /// that one load has.
    share_least: usize,
    segment_bytes: u64,
    slots: AtomicUsize,
    bytes: AtomicUsize,
    /// Bytes of log that are ready to be written.
    ahead: AtomicU64,
    is_short: AtomicBool,
    short: Mutex<Option<Fault>>,
    n_waiting: AtomicUsize,
    waiting: Mutex<Vec<Arc<LoadCell>>>,
}

impl Room {
    pub(crate) fn new(config: &StoreConfig, segment_bytes: u64) -> Self {
        Room {
            slots_max: config.queue_max,
            bytes_max: config.queue_bytes_max,
            share_max: config.share_bytes_max,
            share_least: SLOTS_PER_SHARE * config.share_bytes_max / config.queue_max,
            segment_bytes,
            slots: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            ahead: AtomicU64::new(0),
            is_short: AtomicBool::new(false),
            short: Mutex::new(None),
            n_waiting: AtomicUsize::new(0),
            waiting: Mutex::default(),
        }
    }

    /// The committer says how much log is ready to be written.
    pub(crate) fn set_ahead(&self, bytes: u64) {
        self.ahead.store(bytes, Ordering::Release);
    }

    /// The committer says why no more log can be made ready, or that it can.
    pub(crate) fn set_short(&self, fault: Option<Fault>) {
        self.is_short.store(fault.is_some(), Ordering::Release);
        *lock(&self.short) = fault;
    }

    /// Why no more log can be made ready.
    pub(crate) fn short(&self) -> Option<Fault> {
        if self.is_short.load(Ordering::Acquire) { lock(&self.short).clone() } else { None }
    }

    /// Whether there is log space for `bytes`: `Ok(false)` means that more is being made ready.
    ///
    /// # Errors
    /// `STORE_FULL` or `STORE_READ_ONLY`: none for this purpose.
    pub(crate) fn has_space(&self, bytes: usize, purpose: Purpose) -> Result<bool, Fault> {
        let ahead = self.ahead.load(Ordering::Acquire);
        let (waiting, bytes) = (self.bytes.load(Ordering::Relaxed) as u64, bytes as u64);
        let n_frames = self.slots.load(Ordering::Relaxed) as u64 + 1;
        let Some(short) = self.short() else {
            // A snapshot may be larger than what is ever ready at once.
            let first = bytes.min(self.segment_bytes);
            let enough = waiting + first + n_frames * FRAME_COST <= ahead;
            return Ok(enough || n_frames == 1);
        };
        if short.code == Code::StoreReadOnly {
            return Err(short);
        }
        let n_reserves = match purpose {
            Purpose::Send => 2,
            Purpose::Settle => 1,
            Purpose::Snapshot => 0,
        };
        let cost = waiting + bytes + n_frames * 2 * BLOCK + n_reserves * self.segment_bytes;
        if cost <= ahead { Ok(true) } else { Err(short) }
    }

    /// Permits given and not yet back: appends on their way.
    pub(crate) fn n_taken(&self) -> usize {
        self.slots.load(Ordering::Relaxed)
    }

    /// Takes a slot and bytes; gives what was charged, to be given back.
    pub(crate) fn take(&self, cell: &LoadCell, bytes: usize) -> Option<Charge> {
        let share = bytes.max(self.share_least).min(self.share_max);
        let charge = bytes.min(self.bytes_max / 2);
        if !add_within(&self.slots, 1, self.slots_max) {
            return None;
        }
        if !add_within(&self.bytes, charge, self.bytes_max) {
            self.slots.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        if !add_within(&cell.bytes, share, self.share_max) {
            self.slots.fetch_sub(1, Ordering::AcqRel);
            self.bytes.fetch_sub(charge, Ordering::AcqRel);
            return None;
        }
        Some(Charge { share, bytes: charge })
    }

    /// Gives back what [`Room::take`] charged. Whether somebody waits for it.
    pub(crate) fn give_back(&self, cell: &LoadCell, charge: Charge) -> bool {
        self.slots.fetch_sub(1, Ordering::AcqRel);
        self.bytes.fetch_sub(charge.bytes, Ordering::AcqRel);
        cell.bytes.fetch_sub(charge.share, Ordering::AcqRel);
        self.n_waiting.load(Ordering::Acquire) > 0
    }

    /// Notes that a load is to be told of room.
    pub(crate) fn wait(&self, cell: &Arc<LoadCell>) {
        if !cell.waiting.swap(true, Ordering::AcqRel) {
            lock(&self.waiting).push(cell.clone());
            self.n_waiting.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Tells those that wait that there may be room. Called by the committer, with no lock held.
    pub(crate) fn tell(&self) {
        if self.n_waiting.load(Ordering::Acquire) == 0 {
            return;
        }
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        self.n_waiting.fetch_sub(waiting.len(), Ordering::AcqRel);
        let mut calls = Calls::default();
        for cell in waiting {
            cell.waiting.store(false, Ordering::Release);
            calls.make(|| cell.tickets.room());
        }
        calls.finish();
    }
}

fn add_within(counter: &AtomicUsize, n: usize, max: usize) -> bool {
    counter
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| {
            now.checked_add(n).filter(|sum| *sum <= max)
        })
        .is_ok()
}
