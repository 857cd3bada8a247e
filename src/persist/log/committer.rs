//! The committer: one at a time, it takes what waits, writes it as one group, flushes once and
//! tells everybody.
//!
//! **Invariant**: in `sync` a group is written only when everything before it, but for one empty
//! group, is flushed; nothing is settled before its flush; after a failed flush nothing is written.
//! `flushed` in a header never counts what no flush has covered.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::batch::Batch;
use super::calls::Calls;
use super::core::Core;
use super::frame::{FRAME_OVERHEAD, FrameHeader, Part};
use super::group::{BLOCK, GROUP_HEADER, GroupBuilder, GroupHeader, NO_GROUP, OWNER};
use super::heads::Link;
use super::heads_file::LastGroup;
use super::keeper::{Done, Keeper};
use super::load::has_ended;
use super::queue::{Item, Stop, Taken, Waiting};
use super::recover::Recovered;
use super::segment::lock;
use super::tail::Tail;
use crate::config::Durability;
use crate::error::{Code, Fault};
use crate::persist::store::Payload;

/// See the file.
pub(crate) struct Committer {
    pub(crate) core: Arc<Core>,
    pub(crate) keeper: Keeper,
    pub(crate) tail: Tail,
    /// Taken from the queue and not yet in a group.
    pub(crate) items: VecDeque<Item>,
    /// The newest frame of each slot as it is written, flushed or not.
    written: Vec<u64>,
    batch: Batch,
    run: u64,
    number: u64,
    /// Whether a flush has covered a group of this run.
    run_is_flushed: bool,
    /// When what is written must be flushed, in `written` durability, in ms.
    pub(crate) flush_at: Option<u64>,
    pub(crate) care: super::care::Care,
    pub(crate) pace: super::serve::Pace,
}

/// What the first part of [`Recovered`] leaves for the committer.
pub(crate) struct Start {
    pub(crate) end: u64,
    /// What the saved heads cover.
    pub(crate) covered: u64,
    pub(crate) last: Option<LastGroup>,
    pub(crate) run: u64,
}

impl From<&Recovered> for Start {
    fn from(recovered: &Recovered) -> Self {
        let Recovered { end, covered, last, .. } = *recovered;
        Start { end, covered, last, run: recovered.report.run }
    }
}

impl Committer {
    pub(crate) fn new(core: Arc<Core>, keeper: Keeper, start: &Start) -> Self {
        let tail = Tail::new(&core, start);
        let mut committer = Committer {
            core,
            keeper,
            tail,
            items: VecDeque::new(),
            written: Vec::new(),
            batch: Batch::default(),
            run: start.run,
            number: start.last.map_or(0, |last| last.number),
            run_is_flushed: false,
            flush_at: None,
            care: super::care::Care::new(start),
            pace: super::serve::Pace::default(),
        };
        committer.begin();
        committer
    }

    /// The first group finds room, if the disk has any.
    fn begin(&mut self) {
        if self.core.fault().is_none() && self.tail.ahead() < BLOCK {
            let number = self.core.segments.of(self.tail.ready);
            let done = Done::Prepared(self.core.segments.prepare(number));
            self.notice(&mut Taken { done: vec![done], ..Taken::default() });
        }
        self.publish();
    }

    /// Commits what was taken, one group; false when nothing was left to do.
    pub(crate) fn commit(&mut self) -> bool {
        if self.items.is_empty() {
            return false;
        }
        if let Some(group) = self.gather() {
            match self.write(group) {
                Ok(()) => self.make_public(),
                Err(fault) => self.fail(&fault),
            }
        }
        self.publish();
        self.pace.n_settled = self.batch.permits.len();
        self.tell();
        self.core.room.tell();
        true
    }

    fn tell(&mut self) {
        self.core.room.settle(self.batch.permits.len());
        let loads = &self.core.loads;
        self.batch.tell(|cell| loads.remove(cell.load));
    }

    /// The committer panicked: what waits is refused, and so is what comes after it.
    pub(crate) fn give_up(&mut self) -> Fault {
        let text = "the committer ended by a panic, it is unknown what is on disk";
        let fault = Fault::new(Code::NotDurable, text);
        self.core.set_fault(fault.clone());
        self.core.queue.close();
        self.core.queue.stop(Stop::Now);
        self.core.queue.take(&mut self.items);
        self.batch.fail(&fault);
        self.refuse_items(&fault);
        let mut calls = Calls::default();
        calls.make(|| self.tell());
        calls.make(|| self.core.room.tell());
        fault
    }

    /// Moves items into a group until it is full; `None` when there is no frame to write.
    fn gather(&mut self) -> Option<GroupBuilder> {
        if let Some(fault) = self.core.fault() {
            self.refuse_items(&fault);
            return None;
        }
        loop {
            if let Err(fault) = self.make_ready() {
                self.refuse_items(&fault);
                return None;
            }
            let mut group = self.open_group();
            self.fill(&mut group);
            if !group.is_empty() {
                return Some(group);
            }
            self.tail.buffer = group.finish().1;
            if self.items.is_empty() || !self.batch.is_empty() {
                return None;
            }
            self.tail.skip_segment();
        }
    }

    fn open_group(&mut self) -> GroupBuilder {
        self.number += 1;
        let header = GroupHeader {
            position: self.tail.at,
            previous: self.tail.last.map_or(NO_GROUP, |last| last.position),
            number: self.number,
            run: self.run,
            flushed: self.tail.flushed,
            length: 0,
            frames: 0,
            list_crc: 0,
        };
        GroupBuilder::new(header, std::mem::take(&mut self.tail.buffer))
    }

    fn fill(&mut self, group: &mut GroupBuilder) {
        let room = self.tail.room_in_segment();
        let most = room.min(self.core.config.group_bytes_max);
        while let Some(item) = self.items.pop_front() {
            match item {
                Item::End(cell, ended) => {
                    cell.fail();
                    self.batch.end(cell, ended);
                }
                Item::Append(mut waiting) => {
                    if waiting.cell.has_failed() {
                        self.batch.refuse(&waiting.cell, waiting.append.ticket, has_ended());
                        self.batch.permits.push(waiting.permit);
                    } else if self.place(group, &mut waiting, most, room) {
                        self.batch.settle(&waiting.cell, waiting.append.ticket, self.number);
                        self.batch.permits.push(waiting.permit);
                    } else {
                        self.items.push_front(Item::Append(waiting));
                        return;
                    }
                }
            }
        }
    }

    /// Puts an append's frames into the group; false when it is full before the last.
    fn place(
        &mut self,
        group: &mut GroupBuilder,
        waiting: &mut Waiting,
        most: usize,
        room: usize,
    ) -> bool {
        let slot = waiting.cell.slot as usize;
        if self.written.len() <= slot {
            self.catch_up();
        }
        let Some(written) = self.written.get_mut(slot) else { return true };
        let append = &waiting.append;
        let frames = append.payload.frames();
        let snapshot = matches!(append.payload, Payload::Snapshot(_));
        let parts = frames.len() as u32;
        while let Some(payload) = frames.get(waiting.next) {
            let most = if group.is_empty() { room } else { most };
            if group.len_with(payload.len()) > most {
                return false;
            }
            if waiting.next == 0 {
                waiting.as_of = *written;
            }
            let part =
                snapshot.then_some(Part { part: waiting.next as u32, parts, as_of: waiting.as_of });
            let frame = FrameHeader {
                position: group.next_position(),
                run: self.run,
                group: self.number,
                session: waiting.cell.load.session,
                previous: *written,
                time: append.time,
                pending: append.pending,
                part,
                length: payload.len() as u32,
            };
            group.push(&frame, payload);
            *written = frame.position;
            self.batch.links.push((waiting.cell.slot, Link::from(&frame)));
            waiting.next += 1;
        }
        true
    }

    /// Learns of slots that were made since.
    fn catch_up(&mut self) {
        let public = lock(&self.core.public);
        for slot in self.written.len()..public.heads.len() {
            self.written.push(public.heads.position(slot as u32));
        }
    }

    /// Writes a group and, as the durability asks, flushes it.
    fn write(&mut self, group: GroupBuilder) -> Result<(), Fault> {
        let (header, bytes) = group.finish();
        let written = self.tail.write(&self.core, &header, &bytes);
        self.tail.buffer = bytes;
        written?;
        match self.core.config.durability {
            Durability::Written if self.run_is_flushed => {
                let every = self.core.config.flush_every.as_millis();
                let every = u64::try_from(every).unwrap_or(u64::MAX);
                let now = self.core.queue.clock().now_ms();
                self.flush_at.get_or_insert(now.saturating_add(every));
                // No flush would be shared by those who come back.
                self.pace.flush_time = Duration::ZERO;
                Ok(())
            }
            Durability::Sync | Durability::Written | Durability::Memory => self.flush(),
        }
    }

    /// Flushes everything written.
    pub(crate) fn flush(&mut self) -> Result<(), Fault> {
        self.flush_at = None;
        let start = Instant::now();
        self.tail.flush(&self.core)?;
        self.pace.flush_time = start.elapsed();
        self.run_is_flushed = true;
        Ok(())
    }

    /// Writes an empty group, which proves the last one.
    pub(crate) fn write_empty(&mut self) -> Result<(), Fault> {
        let group = self.open_group();
        let (header, bytes) = group.finish();
        let written = self.tail.write(&self.core, &header, &bytes);
        self.tail.buffer = bytes;
        self.publish();
        written
    }

    fn make_public(&mut self) {
        let mut public = lock(&self.core.public);
        for (slot, link) in &self.batch.links {
            public.heads.apply(*slot, *link);
        }
    }

    /// The group of the batch is not on disk: its loads have failed, and what is written next
    /// follows what is.
    fn fail(&mut self, fault: &Fault) {
        let public = lock(&self.core.public);
        for (slot, _) in &self.batch.links {
            if let Some(written) = self.written.get_mut(*slot as usize) {
                *written = public.heads.position(*slot);
            }
        }
        drop(public);
        self.batch.fail(fault);
        // A snapshot of several groups may wait for its next part: its load has failed with it.
        if let Some(Item::Append(waiting)) = self.items.front()
            && waiting.next > 0
        {
            waiting.cell.fail();
        }
    }

    /// Nothing can be written: every append that waits is refused, every end is reached.
    fn refuse_items(&mut self, fault: &Fault) {
        for item in std::mem::take(&mut self.items) {
            match item {
                Item::End(cell, ended) => {
                    cell.fail();
                    self.batch.end(cell, ended);
                }
                Item::Append(waiting) => {
                    self.batch.refuse(&waiting.cell, waiting.append.ticket, fault.clone());
                    self.batch.permits.push(waiting.permit);
                }
            }
        }
    }

    /// Tells callers how much log there is.
    pub(crate) fn publish(&mut self) {
        self.core.room.set_ahead(self.tail.ahead());
        self.core.used.store(self.tail.used(), Ordering::Relaxed);
    }
}

/// The largest payload that fits a group of a segment by itself.
pub(crate) fn payload_max(segment_bytes: u64) -> u64 {
    segment_bytes - (GROUP_HEADER + FRAME_OVERHEAD + OWNER) as u64
}
