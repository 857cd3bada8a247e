//! [`LogStore`]: opening, and what callers may ask.
//!
//! **Invariant**: one opening per data directory, by the kernel's lock; a store that was dropped
//! without [`Store::close`] looks to the next opening like one whose process died.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::committer::{Committer, Start};
use super::core::{Core, Parts};
use super::keeper::Keeper;
use super::load::{LoadCell, has_ended};
use super::meta::{corrupt, unusable};
use super::open::{Opened, open};
use super::queue::{Clock, Item, Queue, Stop, Waiting};
use super::recover::supervisor_damaged;
use super::replay;
use super::segment::lock;
use crate::config::StoreConfig;
use crate::error::{Code, Fault};
use crate::persist::disk::{Disk, DiskFile};
use crate::persist::store::{
    Append, Head, HistoryPage, Load, NoPermit, Permit, Purpose, RecoveryReport, Replay,
    SnapshotsWanted, Store, Tickets,
};
use crate::protocol::{SessionId, Timestamp};

/// The log store.
pub struct LogStore {
    core: Arc<Core>,
    work: Mutex<Option<Work>>,
    lock: Mutex<Option<Box<dyn DiskFile>>>,
}

/// Who commits.
enum Work {
    Thread(JoinHandle<Result<(), Fault>>),
    Inline(Box<Committer>),
}

/// What both ways of opening begin with.
struct Prepared {
    core: Arc<Core>,
    start: Start,
    lock: Box<dyn DiskFile>,
}

impl LogStore {
    /// Opens the data directory, which is made if it is missing, recovers it and starts the
    /// committer's thread.
    ///
    /// A store that is damaged where nobody can tell whose frames are lost, or in the supervisor's
    /// own journal, opens for reading only: see [`Store::fault`].
    ///
    /// # Errors
    /// `STORE_LOCKED` naming the holder, `JOURNAL_VERSION`, `JOURNAL_CORRUPT` for a directory that
    /// does not say what it is, `STORE_UNUSABLE` when the disk fails, `STORE_FULL` and
    /// `STORE_READ_ONLY`. Nothing was lost by any of them.
    pub fn open(
        disk: Arc<dyn Disk>,
        config: &StoreConfig,
        wanted: Arc<dyn SnapshotsWanted>,
    ) -> Result<LogStore, Fault> {
        let Prepared { core, start, lock } =
            Self::prepare(disk, config, wanted, Clock::Machine(Instant::now()))?;
        let keeper = Keeper::start(&core).map_err(|error| unusable("start a thread", &error))?;
        let committer = Committer::new(core.clone(), keeper, &start);
        let thread = thread::Builder::new()
            .name("callboard-committer".to_owned())
            .spawn(move || committer.serve())
            .map_err(|error| unusable("start a thread", &error))?;
        Ok(LogStore {
            core,
            work: Mutex::new(Some(Work::Thread(thread))),
            lock: Mutex::new(Some(lock)),
        })
    }

    /// As [`LogStore::open`], without threads: [`Store::append`], [`Store::urge`], [`Store::end`]
    /// and [`LogStore::tick`] do the work of the committer in the call, so that the same calls
    /// always do the same to the disk. A lazy append's time is told by [`LogStore::tick`].
    ///
    /// # Errors
    /// As [`LogStore::open`].
    pub fn open_inline(
        disk: Arc<dyn Disk>,
        config: &StoreConfig,
        wanted: Arc<dyn SnapshotsWanted>,
    ) -> Result<LogStore, Fault> {
        let Prepared { core, start, lock } =
            Self::prepare(disk, config, wanted, Clock::Told(Default::default()))?;
        let committer = Committer::new(core.clone(), Keeper::Inline, &start);
        let store = LogStore {
            core,
            work: Mutex::new(Some(Work::Inline(Box::new(committer)))),
            lock: Mutex::new(Some(lock)),
        };
        store.core.queue.poke();
        store.drive();
        Ok(store)
    }

    fn prepare(
        disk: Arc<dyn Disk>,
        config: &StoreConfig,
        wanted: Arc<dyn SnapshotsWanted>,
        clock: Clock,
    ) -> Result<Prepared, Fault> {
        let Opened { segments, recovered, lock } = open(&disk, config)?;
        let start = Start::from(&recovered);
        let core = Core::new(Parts {
            config: config.clone(),
            disk,
            segments,
            heads: recovered.heads,
            queue: Queue::new(clock, config.lazy_commit),
            wanted,
            report: recovered.report,
            fault: recovered.read_only,
        });
        Ok(Prepared { core: Arc::new(core), start, lock })
    }

    /// Does what is due at `now`, in a store without threads.
    pub fn tick(&self, now: Timestamp) {
        self.core.queue.clock().tell(now.0);
        self.core.queue.poke();
        self.drive();
    }

    /// Works until nothing is left to do, in a store without threads. A call from inside a
    /// callback returns at once: the outer call goes on with what it left.
    fn drive(&self) {
        loop {
            let Ok(mut work) = self.work.try_lock() else { return };
            let Some(Work::Inline(committer)) = work.as_mut() else { return };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| committer.work())) {
                committer.give_up();
                drop(work);
                resume_unwind(panic);
            }
            drop(work);
            if !self.core.queue.has_work() {
                return;
            }
        }
    }
}

impl Store for LogStore {
    fn heads(&self) -> Vec<Head> {
        let public = lock(&self.core.public);
        public
            .heads
            .iter()
            .map(|entry| Head {
                session: entry.session,
                position: entry.position,
                pending: entry.pending,
                quarantined: entry.quarantined,
            })
            .collect()
    }

    fn begin(&self, session: SessionId, tickets: Arc<dyn Tickets>) -> Result<Load, Fault> {
        let mut public = lock(&self.core.public);
        if public.heads.get(session).is_some_and(|entry| entry.quarantined) {
            return Err(corrupt("the session's journal is damaged where its replay needs it"));
        }
        let slot = public.heads.slot(session);
        drop(public);
        self.core.loads.begin(session, slot, tickets)
    }

    fn replay(&self, session: SessionId) -> Result<Replay, Fault> {
        let (entry, pin) = {
            let mut public = lock(&self.core.public);
            let Some(entry) = public.heads.get(session).copied() else {
                return Ok(Replay::default());
            };
            (entry, public.pin(entry.low, entry.position))
        };
        let replay = if entry.quarantined {
            Err(corrupt("the session's journal is damaged where its replay needs it"))
        } else {
            replay::replay(&self.core.segments, &entry)
        };
        let mut public = lock(&self.core.public);
        public.unpin(pin);
        if replay.as_ref().is_err_and(|fault| fault.code == Code::JournalCorrupt) {
            public.heads.quarantine(session);
            if session == SessionId::SUPERVISOR {
                self.core.set_fault(supervisor_damaged());
            }
        }
        replay
    }

    fn permit(&self, load: Load, bytes: usize, purpose: Purpose) -> Result<Permit, NoPermit> {
        let core = &self.core;
        if let Some(fault) = core.fault() {
            return Err(NoPermit::Fault(fault));
        }
        let cell = core.loads.get(load).filter(|cell| cell.is_open());
        let Some(cell) = cell else { return Err(NoPermit::Fault(has_ended())) };
        let ask = || core.room.ask(&cell, bytes, purpose);
        let mut charge = match ask() {
            Ok(charge) => charge,
            Err(fault) => {
                core.queue.poke();
                self.drive();
                return Err(NoPermit::Fault(fault));
            }
        };
        if charge.is_none() {
            core.room.wait(&cell);
            // What was given back since the first look may have found nobody waiting.
            charge = ask().map_err(NoPermit::Fault)?;
        }
        if charge.is_none() {
            // Room may be held by appends that nobody hurries.
            let urged = core.queue.urge();
            let poked = core.room.wants_log(bytes, purpose);
            if poked {
                core.queue.poke();
            }
            if urged || poked {
                self.drive();
                charge = ask().map_err(NoPermit::Fault)?;
            }
        }
        let Some(charge) = charge else { return Err(NoPermit::Wait) };
        Ok(Permit::new(load, bytes, cell, charge))
    }

    fn append(&self, permit: Permit, append: Append) {
        assert!(append.payload.len() <= permit.bytes, "an append is covered by its permit");
        let (frames, frame_max) = (append.payload.frames(), self.core.config.frame_max);
        let fits = frames.iter().all(|frame| frame.len() <= frame_max);
        assert!(fits, "a payload is at most frame_max bytes");
        assert!(!frames.is_empty(), "a snapshot has a part");
        let Some(cell) = permit.giver::<LoadCell>().filter(|cell| !cell.is_over()) else {
            tracing::debug!("an append was dropped: its load had ended, and said so");
            return;
        };
        let waiting = Waiting { cell, append, permit, next: 0, as_of: 0 };
        self.core.room.hand_over();
        match self.core.queue.push(Item::Append(waiting)) {
            Ok(true) => self.drive(),
            Ok(false) => {}
            Err(refused) => {
                let Item::Append(Waiting { cell, append, .. }) = *refused else { return };
                self.core.room.settle(1);
                let closed = Fault::new(Code::Closed, "the store is closed");
                cell.tickets.settled(cell.load.number, append.ticket, Err(closed));
            }
        }
    }

    fn urge(&self) {
        if self.core.queue.urge() {
            self.drive();
        }
    }

    fn end(&self, load: Load, ended: Box<dyn FnOnce() + Send>) {
        let Some(cell) = self.core.loads.get(load) else { return ended() };
        cell.begin_to_end();
        match self.core.queue.push(Item::End(cell, ended)) {
            Ok(_) => self.drive(),
            Err(refused) => {
                let Item::End(_, ended) = *refused else { return };
                self.core.loads.remove(load);
                ended();
            }
        }
    }

    fn history(
        &self,
        session: SessionId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<HistoryPage, Fault> {
        let (entry, pin) = {
            let mut public = lock(&self.core.public);
            let Some(entry) = public.heads.get(session).copied() else {
                return Ok(HistoryPage::default());
            };
            (entry, public.pin(0, entry.position))
        };
        let page = replay::history(&self.core.segments, &entry, before, limit);
        lock(&self.core.public).unpin(pin);
        page
    }

    fn recovery(&self) -> RecoveryReport {
        let mut report = self.core.report.clone();
        report.bytes_read = self.core.segments.bytes_read();
        if let Some(fault) = self.core.fault().filter(|fault| fault.code == Code::JournalCorrupt) {
            report.read_only = Some(fault.text);
        }
        report
    }

    fn used_bytes(&self) -> u64 {
        self.core.used.load(Ordering::Relaxed)
    }

    fn fault(&self) -> Option<Fault> {
        self.core.fault()
    }

    fn close(&self) -> Result<(), Fault> {
        let done = self.end_work(Stop::Orderly);
        drop(lock(&self.lock).take());
        done
    }
}

impl LogStore {
    /// Ends the committer once. `work` is held until it has ended, so that nobody else gives the
    /// directory's lock back, or hurries it, before.
    fn end_work(&self, how: Stop) -> Result<(), Fault> {
        let mut work = lock(&self.work);
        let Some(ending) = work.take() else { return Ok(()) };
        self.core.queue.stop(how);
        match ending {
            Work::Inline(mut committer) => committer.stop(),
            Work::Thread(thread) => thread.join().unwrap_or_else(|_| {
                Err(Fault::new(Code::StoreUnusable, "the committer's thread panicked"))
            }),
        }
    }
}

impl Drop for LogStore {
    fn drop(&mut self) {
        let threaded = matches!(&*lock(&self.work), Some(Work::Thread(_)));
        if threaded && let Err(fault) = self.end_work(Stop::Now) {
            tracing::warn!(%fault, "the store was dropped without being closed");
        }
    }
}

#[cfg(test)]
impl LogStore {
    /// The committer of a store without threads.
    pub(crate) fn look_at(&self, look: impl FnOnce(&mut Committer)) {
        let mut work = lock(&self.work);
        let Some(Work::Inline(committer)) = work.as_mut() else { panic!("it has threads") };
        look(committer);
    }

    /// What a load shares with the committer.
    pub(crate) fn cell(&self, load: Load) -> Arc<super::load::LoadCell> {
        self.core.loads.get(load).unwrap()
    }
}
