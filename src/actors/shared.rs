//! What all actors of one bus share.
//!
//! **Invariant**: of one session there is one cell at a time: it leaves only when the session is
//! not in memory, nothing is known in it that a fresh one would not know, and nobody else holds it;
//! a session is always on the arbiter that its id names.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use dashmap::{DashMap, DashSet};
use tokio::sync::{Semaphore, oneshot};

use super::agent::Factory;
use super::arbiter;
use super::cell::{Cell, Phase};
use super::clock::Clock;
use super::control::{Control, Reply};
use super::load::Folded;
use super::observer::Observer;
use super::progress::{Counters, Progress};
use super::quiet::Unquiet;
use super::request::SupervisorHandle;
use super::wake::Queue;
use crate::config::Config;
use crate::error::{Code, Ended, Error, Fault};
use crate::persist::Store;
use crate::protocol::SessionId;
use crate::protocol::hash::IdHash;
use crate::protocol::session::Inspection;

/// Cells are not looked through before so many sessions have left memory.
const LEFT_LEAST: usize = 256;

/// What a life is started with.
pub struct Parts {
    /// Every limit, validated.
    pub config: Config,
    /// The journals.
    pub store: Arc<dyn Store>,
    /// Who makes agents, by name.
    pub factories: HashMap<String, Arc<dyn Factory>>,
    /// Who watches.
    pub observer: Option<Arc<dyn Observer>>,
    /// Time and fresh ids.
    pub clock: Arc<dyn Clock>,
    /// Who grants routes.
    pub supervisor: SupervisorHandle,
}

/// What all actors of one bus share.
pub struct Shared {
    /// Every limit.
    pub config: Config,
    /// The journals.
    pub store: Arc<dyn Store>,
    /// Who makes agents, by name.
    pub factories: HashMap<String, Arc<dyn Factory>>,
    /// Who watches.
    pub observer: Option<Arc<dyn Observer>>,
    /// Time and fresh ids.
    pub clock: Arc<dyn Clock>,
    /// Who grants routes.
    pub supervisor: SupervisorHandle,
    pub(super) counters: Counters,
    pub(super) loading: Arc<Semaphore>,
    /// Journals that recovery has folded and no load has taken.
    folded: Mutex<HashMap<SessionId, Folded>>,
    pub(super) unquiet: Arc<Unquiet>,
    cells: DashMap<SessionId, Arc<Cell>, IdHash>,
    /// Sessions that have left memory since cells were last looked through.
    n_left: AtomicUsize,
    queues: Vec<Arc<Queue>>,
    threads: Mutex<Vec<(oneshot::Receiver<()>, JoinHandle<()>)>>,
    closing: AtomicBool,
    /// Sessions end: what was being made is made.
    stopping: AtomicBool,
    /// The arbiters are gone.
    ended: AtomicBool,
    /// Everybody was told that nothing can be written any more.
    faulted: AtomicBool,
    /// Sessions that have come to a stand since the bus was opened.
    stranded: DashSet<SessionId>,
}

impl Shared {
    /// Starts the arbiter threads.
    ///
    /// # Errors
    /// `STORE_UNUSABLE` when the system gives no thread.
    pub fn start(parts: Parts) -> Result<Arc<Self>, Error> {
        let Parts { config, store, factories, observer, clock, supervisor } = parts;
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let n_arbiters = if config.life.arbiters == 0 { cores() } else { config.life.arbiters };
        let shared = Arc::new(Shared {
            loading: Arc::new(Semaphore::new(config.life.load_parallel)),
            folded: Mutex::default(),
            config,
            store,
            factories,
            observer,
            clock,
            supervisor,
            counters: Counters::default(),
            unquiet: Arc::default(),
            cells: DashMap::default(),
            n_left: AtomicUsize::new(0),
            queues: (0..n_arbiters).map(|_| Arc::default()).collect(),
            threads: Mutex::default(),
            closing: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            faulted: AtomicBool::new(false),
            stranded: DashSet::new(),
        });
        for (index, queue) in shared.queues.iter().enumerate() {
            match arbiter::start(index, Arc::clone(queue), Arc::clone(&shared)) {
                Ok(thread) => shared.threads().push(thread),
                Err(error) => {
                    shared.begin_shut_down();
                    let text = format!("the system gives no thread: {error}");
                    return Err(Fault::new(Code::StoreUnusable, text).into());
                }
            }
        }
        Ok(shared)
    }

    /// Keeps what recovery has folded for the first load of each session, before any begins.
    pub(crate) fn keep_folded(&self, folded: HashMap<SessionId, Folded>) {
        *self.folded.lock().unwrap_or_else(PoisonError::into_inner) = folded;
    }

    /// What recovery has folded of a session, if no load began since.
    pub(super) fn take_folded(&self, id: SessionId) -> Option<Folded> {
        self.folded.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)
    }

    /// The inbox of a session, made where there is none. Says nothing of whether it exists.
    pub fn cell(&self, id: SessionId) -> Arc<Cell> {
        if let Some(cell) = self.cells.get(&id) {
            return Arc::clone(&cell);
        }
        let entry = self.cells.entry(id);
        let made = entry.or_insert_with(|| {
            let queue = self.queue_of(id);
            Cell::new(id, queue, Arc::clone(&self.unquiet), &self.config)
        });
        let made = Arc::clone(&made);
        if self.ended.load(Ordering::Acquire) {
            // No arbiter looks at it any more.
            made.shut();
        }
        made
    }

    /// From now on the session is opened without its agent.
    pub fn without_agent(&self, id: SessionId) {
        self.cell(id).set_failed();
    }

    /// The session has failed for good: it is opened without its agent, to bury what it has
    /// accepted.
    pub(crate) fn failed_for_good(&self, id: SessionId) {
        self.without_agent(id);
        self.cell(id).set_failed_for_good();
    }

    /// The inbox of a session that somebody has spoken to since the bus was opened.
    pub fn known_cell(&self, id: SessionId) -> Option<Arc<Cell>> {
        self.cells.get(&id).map(|cell| Arc::clone(&cell))
    }

    /// Whether a session is in memory, on its way in or out, or about to be called there.
    pub(super) fn is_awake(&self, id: SessionId) -> bool {
        self.cells.get(&id).is_some_and(|cell| !cell.is_cold())
    }

    /// A session has left memory. After enough of them the cells that nobody holds go too.
    pub(super) fn note_left(&self) {
        let n_left = self.n_left.fetch_add(1, Ordering::AcqRel) + 1;
        if !n_left.is_multiple_of(LEFT_LEAST) || n_left < self.cells.len() / 2 {
            return;
        }
        self.n_left.store(0, Ordering::Release);
        // While one is looked at here, nobody can come to hold it.
        self.cells.retain(|_, cell| Arc::strong_count(cell) > 1 || !cell.is_forgettable());
    }

    fn queue_of(&self, id: SessionId) -> Arc<Queue> {
        let spread = (id.as_u128() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let index = usize::try_from(spread).unwrap_or(0) % self.queues.len().max(1);
        self.queues.get(index).map(Arc::clone).unwrap_or_default()
    }

    /// Tells a session something and waits for its answer.
    ///
    /// # Errors
    /// The session's; `CLOSED` when the bus closes meanwhile.
    ///
    /// # Cancel safety
    /// What was asked is carried out or not; nothing else is lost.
    pub async fn call<T>(
        &self,
        id: SessionId,
        control: impl FnOnce(Reply<T>) -> Control,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        if self.is_closing() {
            return Err(Ended::Closed.into());
        }
        self.cell(id).push(control(reply));
        answer.await.unwrap_or_else(|_| Err(Ended::Closed.into()))
    }

    /// What a session in memory says of itself; none: it is not in memory, and not loaded for this.
    ///
    /// # Errors
    /// As [`Shared::call`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn look(&self, id: SessionId) -> Result<Option<Inspection>, Error> {
        if self.known_cell(id).is_none() {
            return Ok(None);
        }
        self.call(id, |reply| Control::Inspect { reply }).await
    }

    /// Loads a session that has, or may have, pending work.
    pub fn load(&self, id: SessionId) {
        self.cell(id).push(Control::Load);
    }

    /// A session has met a fault. Where it is the store's, and for good, all who wait for what
    /// cannot come any more are told, once.
    pub(super) fn look_for_fault(&self) {
        if self.store.fault().is_none() || self.faulted.swap(true, Ordering::AcqRel) {
            return;
        }
        for cell in self.cells_now() {
            cell.fault();
        }
        self.unquiet.give_up();
    }

    /// A session takes no turn any more until the next opening, or its next load.
    pub(super) fn strand(&self, id: SessionId) {
        self.stranded.insert(id);
    }

    /// Sessions that have come to a stand since the bus was opened.
    pub fn n_stranded(&self) -> u64 {
        let damaged = |cell: &Arc<Cell>| match cell.phase() {
            Phase::Quarantined(fault) => fault.code == Code::JournalCorrupt,
            _ => false,
        };
        for cell in self.cells_now().iter().filter(|cell| damaged(cell)) {
            self.stranded.insert(cell.id());
        }
        self.stranded.len() as u64
    }

    /// Figures since the bus was opened.
    pub fn progress(&self) -> Progress {
        let waited = self.queues.iter().map(|queue| queue.rounds_waited_max());
        Progress { rounds_waited_max: waited.max().unwrap_or(0), ..self.counters.read() }
    }

    /// Waits until no session has anything to do and nothing is on its way, or until nothing can be
    /// written any more.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn quiet(&self) {
        let waits = self.unquiet.wait();
        self.store.urge();
        self.look_for_fault();
        waits.quiet().await;
    }

    /// Whether the bus closes.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Stops the intake: a signal only.
    pub fn begin_shut_down(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// Whether every session is to end.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Stops the intake, lets turns end within `stop_max`, ends every load and joins the threads.
    /// The store stays open. A second call returns at once.
    ///
    /// # Cancel safety
    /// The shut-down goes on; the threads are not joined then.
    pub async fn shut_down(&self) {
        self.begin_shut_down();
        self.stopping.store(true, Ordering::Release);
        for queue in &self.queues {
            queue.poke();
        }
        let threads = std::mem::take(&mut *self.threads());
        for (finished, thread) in threads {
            // An error says that the thread is gone already.
            drop(finished.await);
            if thread.join().is_err() {
                tracing::error!("an arbiter thread panicked");
            }
        }
        self.ended.store(true, Ordering::Release);
        for cell in self.cells_now() {
            cell.shut();
        }
    }

    fn cells_now(&self) -> Vec<Arc<Cell>> {
        self.cells.iter().map(|entry| Arc::clone(&entry)).collect()
    }

    /// Sessions that one arbiter keeps in memory before idle ones leave early.
    pub(super) fn residents_per_arbiter(&self) -> usize {
        self.config.life.resident_max.div_ceil(self.queues.len().max(1))
    }

    /// For good: what waits in the cells of this arbiter is dropped, which answers it.
    pub(super) fn shut_cells(&self, queue: &Arc<Queue>) {
        let cells: Vec<Arc<Cell>> = self.cells.iter().map(|entry| Arc::clone(&entry)).collect();
        for cell in cells.iter().filter(|cell| cell.is_queued_in(queue)) {
            cell.shut();
        }
    }

    fn threads(&self) -> std::sync::MutexGuard<'_, Vec<(oneshot::Receiver<()>, JoinHandle<()>)>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
