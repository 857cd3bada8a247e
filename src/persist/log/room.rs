//! Room for appends: slots, bytes, each load's share, and log space with its reserves.
//!
//! **Invariant**: what a permit took is given back exactly once, when the permit is dropped. A
//! permit larger than a bound of the queue is charged the bound, so that it can be had when all is
//! quiet. Of log space a permit is charged the most that its frames can take up, so that what was
//! permitted fits what is ready, however it is handed over. Who is told to wait is told again:
//! when room is given back, or, where nobody holds any, when the log that it asks for is ready.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::calls::Calls;
use super::frame::FRAME_OVERHEAD;
use super::group::{BLOCK, GROUP_HEADER, OWNER};
use super::load::LoadCell;
use super::segment::lock;
use crate::config::StoreConfig;
use crate::error::{Code, Fault};
use crate::persist::store::{Charge, Purpose};

/// Bytes of log for a frame beside its payload.
const FRAME_COST: u64 = (FRAME_OVERHEAD + OWNER) as u64;
/// Bytes of log for a commit beside its frames: the group's header, what fills its last block, and
/// the empty group that proves it. The rest is for the proofs that the cleaner needs.
const COMMIT_COST: u64 = 3 * BLOCK;
/// Commits that take what was handed over: the one under way, and the one that takes the rest.
const COMMITS_AHEAD: u64 = 2;
/// Segments that are kept ready: the two reserves, and two for sends.
const READY: u64 = 4;
/// The least bytes of a reserve: one small frame that is committed by itself has room in it.
const RESERVE_LEAST: u64 = COMMIT_COST + BLOCK;

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
    frame_max: u64,
    /// What short groups and the ends of segments leave empty, in 1,024th of the frames' bytes.
    filling: u64,
    /// The most bytes of a group.
    group_max: u64,
    slots: AtomicUsize,
    bytes: AtomicUsize,
    /// Of the slots, those whose appends were handed over.
    n_handed: AtomicUsize,
    /// Bytes of log that the frames on their way take up at most.
    claimed: AtomicU64,
    /// Bytes of log that are ready to be written.
    ahead: AtomicU64,
    /// Bytes of log that somebody needs who waits though nobody else holds any; 0 for nobody.
    wanted: AtomicU64,
    is_preparing: AtomicBool,
    is_short: AtomicBool,
    short: Mutex<Option<Fault>>,
    n_waiting: AtomicUsize,
    waiting: Mutex<Vec<Arc<LoadCell>>>,
}

impl Room {
    pub(crate) fn new(config: &StoreConfig, segment_bytes: u64) -> Self {
        let group_max = segment_bytes.min(config.group_bytes_max as u64);
        Room {
            slots_max: config.queue_max,
            bytes_max: config.queue_bytes_max,
            share_max: config.share_bytes_max,
            share_least: SLOTS_PER_SHARE * config.share_bytes_max / config.queue_max,
            segment_bytes,
            frame_max: config.frame_max as u64,
            filling: 1_024 * 3 * BLOCK / group_max + 1,
            group_max,
            slots: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            n_handed: AtomicUsize::new(0),
            claimed: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            is_preparing: AtomicBool::new(false),
            is_short: AtomicBool::new(false),
            short: Mutex::new(None),
            n_waiting: AtomicUsize::new(0),
            waiting: Mutex::default(),
        }
    }

    /// The committer says how much log is ready to be written.
    pub(crate) fn set_ahead(&self, bytes: u64) {
        self.ahead.store(bytes, Ordering::SeqCst);
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

    /// Bytes of log that are to be kept ready: any one frame has room in it, and whoever waits.
    pub(crate) fn enough(&self) -> u64 {
        self.enough_for_frames().max(self.wanted.load(Ordering::SeqCst))
    }

    fn enough_for_frames(&self) -> u64 {
        let largest = self.needs(self.frame_max as usize, Purpose::Send) + BLOCK;
        largest.max(READY * self.segment_bytes)
    }

    /// Nobody needs more than `bytes` of log any more: it is ready, or cannot be made ready.
    pub(crate) fn forget_wanted(&self, bytes: u64) {
        let wanted = self.wanted.load(Ordering::SeqCst);
        if wanted == 0 || wanted > bytes {
            return;
        }
        // What was asked for meanwhile stays.
        let (Ok(_) | Err(_)) =
            self.wanted.compare_exchange(wanted, 0, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// More log is being made ready, or not: who waits is told when that is done.
    pub(crate) fn set_preparing(&self, is_preparing: bool) {
        self.is_preparing.store(is_preparing, Ordering::SeqCst);
    }

    /// Asks for a slot, bytes, and log space. `Ok(None)` means that there may be room later.
    ///
    /// # Errors
    /// What keeps more log from being made ready: none for this purpose.
    pub(crate) fn ask(
        &self,
        cell: &LoadCell,
        bytes: usize,
        purpose: Purpose,
    ) -> Result<Option<Charge>, Fault> {
        let (log, kept) = (self.cost(bytes, purpose), self.reserves(purpose));
        let needs = log + COMMIT_COST + kept;
        loop {
            let has_space = self.has_space(needs);
            if let Some(short) = self.short()
                && (short.code == Code::StoreReadOnly
                    || (!has_space && needs > self.ahead.load(Ordering::SeqCst)))
            {
                return Err(short);
            }
            if !has_space {
                return Ok(None);
            }
            let Some(charge) = self.take(cell, bytes, log) else { return Ok(None) };
            if self.has_space(kept) {
                return Ok(Some(charge));
            }
            // Two that looked at the same room have both taken it. Whoever was turned away by
            // what is given back here is told by the one who gets it.
            self.give_back(cell, charge);
        }
    }

    /// Whether there is log for what is on its way and `more`.
    fn has_space(&self, more: u64) -> bool {
        let ahead = self.ahead.load(Ordering::SeqCst);
        self.on_the_way() + more <= ahead
    }

    /// Bytes of log that what was permitted takes up at most.
    fn on_the_way(&self) -> u64 {
        // In this order: what is handed over or given back meanwhile is counted twice.
        let n_taken = self.slots.load(Ordering::SeqCst);
        let n_handed = self.n_handed.load(Ordering::SeqCst);
        let n_commits = n_taken.saturating_sub(n_handed) as u64;
        let n_commits = n_commits + (n_handed as u64).min(COMMITS_AHEAD);
        self.claimed.load(Ordering::SeqCst) + n_commits * COMMIT_COST
    }

    /// Bytes of log that somebody needs who asks alone.
    fn needs(&self, bytes: usize, purpose: Purpose) -> u64 {
        self.cost(bytes, purpose) + COMMIT_COST + self.reserves(purpose)
    }

    /// The reserves that are not for this purpose: one is the cleaner's, one is for what settles.
    fn reserves(&self, purpose: Purpose) -> u64 {
        self.segment_bytes.max(RESERVE_LEAST)
            * match purpose {
                Purpose::Send => 2,
                Purpose::Settle | Purpose::Snapshot => 1,
                Purpose::Clean => 0,
            }
    }

    /// The most bytes of log that the frames of a payload take up, without their commit.
    fn cost(&self, bytes: usize, purpose: Purpose) -> u64 {
        let (bytes, half) = (bytes as u64, (self.frame_max / 2).max(1));
        // Nobody makes parts of less than half a frame, but for the last two.
        let n_parts = match purpose {
            Purpose::Send | Purpose::Settle => 1,
            Purpose::Snapshot | Purpose::Clean => bytes / half + 2,
        };
        let frames = bytes + n_parts * FRAME_COST;
        if frames + GROUP_HEADER as u64 <= BLOCK {
            return frames + frames * self.filling / 1_024;
        }
        // One that does not fit the rest of a segment leaves it empty; two groups in a row are
        // more than the largest, and each fills its last block.
        let largest = frames.min(self.frame_max + FRAME_COST);
        let n_ends = frames.div_ceil(self.segment_bytes.saturating_sub(largest).max(BLOCK));
        let n_groups = n_parts.min(2 * frames / self.group_max + n_ends + 1);
        frames + (n_ends * largest).min(frames) + 2 * n_groups * BLOCK
    }

    /// Permits given and not yet back: appends on their way.
    pub(crate) fn n_taken(&self) -> usize {
        self.slots.load(Ordering::Relaxed)
    }

    /// Takes a slot, bytes, and `log` bytes of log; gives what was charged, to be given back.
    pub(crate) fn take(&self, cell: &LoadCell, bytes: usize, log: u64) -> Option<Charge> {
        let (share, queue) = self.bounded(bytes);
        if !add_within(&self.slots, 1, self.slots_max) {
            return None;
        }
        if !add_within(&self.bytes, queue, self.bytes_max) {
            self.slots.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        if !add_within(&cell.bytes, share, self.share_max) {
            self.slots.fetch_sub(1, Ordering::SeqCst);
            self.bytes.fetch_sub(queue, Ordering::SeqCst);
            return None;
        }
        self.claimed.fetch_add(log, Ordering::SeqCst);
        Some(Charge { bytes, log })
    }

    /// What a payload is charged of its load's share and of the queue, in bytes.
    fn bounded(&self, bytes: usize) -> (usize, usize) {
        let share = bytes.max(self.share_least).min(self.share_max);
        (share, bytes.min(self.bytes_max / 2))
    }

    /// Gives back what was charged. Whether somebody waits for it.
    pub(crate) fn give_back(&self, cell: &LoadCell, charge: Charge) -> bool {
        let (share, queue) = self.bounded(charge.bytes);
        self.claimed.fetch_sub(charge.log, Ordering::SeqCst);
        self.slots.fetch_sub(1, Ordering::SeqCst);
        self.bytes.fetch_sub(queue, Ordering::SeqCst);
        cell.bytes.fetch_sub(share, Ordering::SeqCst);
        self.n_waiting.load(Ordering::SeqCst) > 0
    }

    /// An append is handed over: from now on it is committed with all others that are.
    pub(crate) fn hand_over(&self) {
        self.n_handed.fetch_add(1, Ordering::SeqCst);
    }

    /// Appends that were handed over are settled; their permits are given back after this.
    pub(crate) fn settle(&self, n_appends: usize) {
        self.n_handed.fetch_sub(n_appends, Ordering::SeqCst);
    }

    /// Notes that a load is to be told of room.
    pub(crate) fn wait(&self, cell: &Arc<LoadCell>) {
        if !cell.waiting.swap(true, Ordering::AcqRel) {
            lock(&self.waiting).push(cell.clone());
            self.n_waiting.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Notes that somebody who waits needs more log than is ready, which no permit that is given
    /// back would bring. Whether the committer is to be told, since it is making none ready.
    pub(crate) fn wants_log(&self, bytes: usize, purpose: Purpose) -> bool {
        let (needs, ahead) = (self.needs(bytes, purpose), self.ahead.load(Ordering::SeqCst));
        // Small ones would for ever take the room that a large snapshot waits for.
        let beside_others = needs + self.on_the_way();
        let is_large = needs > self.enough_for_frames();
        if needs <= ahead && !(is_large && beside_others > ahead) {
            return false;
        }
        self.wanted.fetch_max(beside_others, Ordering::SeqCst);
        !self.is_preparing.load(Ordering::SeqCst)
    }

    /// Tells those that wait that there may be room. Called by the committer, with no lock held.
    pub(crate) fn tell(&self) {
        if self.n_waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        self.n_waiting.fetch_sub(waiting.len(), Ordering::SeqCst);
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
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| {
            now.checked_add(n).filter(|sum| *sum <= max)
        })
        .is_ok()
}
