//! Opening a bus: configuration, store, recovery, threads; in this order.
//!
//! **Invariant**: when `open` returns, half-made sessions are settled and every pending count is
//! rebuilt; sends are admitted from then on and not before.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::LocalSet;

use super::{Bus, House, Recovery};
use crate::actors::agent::Factory;
use crate::actors::clock::SystemClock;
use crate::actors::control::Control;
use crate::actors::observer::Observer;
use crate::actors::recovery::{self, Survey};
use crate::actors::request::{Request, SupervisorHandle};
use crate::actors::shared::{Parts, Shared};
use crate::actors::stream::Stream;
use crate::actors::supervisor::Supervisor;
use crate::config::{Config, Durability};
use crate::error::{Code, Ended, Error, Fault, Refused};
use crate::persist::store::{SnapshotsWanted, Store};
use crate::persist::{Disk, LogStore, MemoryStore, RealDisk};
use crate::protocol::SessionId;
use crate::protocol::supervisor::{Graph, Origin};

/// Configures and opens a bus.
#[derive(Default)]
pub struct Builder {
    config: Config,
    disk: Option<Arc<dyn Disk>>,
    /// Whether a directory was named, which must not stay empty.
    is_kept: bool,
    factories: HashMap<String, Arc<dyn Factory>>,
    observer: Option<Arc<dyn Observer>>,
    origin: Option<Origin>,
}

impl Builder {
    /// Keeps the journals in this directory, made where it is missing. Not together with durability
    /// `memory`.
    #[must_use]
    pub fn data_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.is_kept = true;
        self.disk(Arc::new(RealDisk::new(dir)))
    }

    /// Keeps the journals on this disk.
    #[must_use]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = Some(disk);
        self
    }

    /// Sets every limit.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Names a factory of agents. Sessions keep the name, so that a restart can make them again.
    #[must_use]
    pub fn agent(mut self, name: impl Into<String>, factory: impl Factory) -> Self {
        self.factories.insert(name.into(), Arc::new(factory));
        self
    }

    /// Has acceptances and handlings observed.
    #[must_use]
    pub fn observe(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Gives the directory to one trace or scenario. A directory of another one is refused before
    /// anything in it is resumed; a fresh one has it recorded before [`Builder::open`] returns.
    #[must_use]
    pub fn dedicate(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// Opens the bus: recovers the journals, rebuilds the pending counts, starts the threads.
    ///
    /// # Errors
    /// `INVALID_CONFIG`; `INVALID_ARGUMENT` for a data directory with durability `memory`, which
    /// keeps nothing there; `STORE_LOCKED` when another process holds the directory; `WRONG_ORIGIN`
    /// when it belongs to another trace or scenario; `STORE_UNUSABLE`, `STORE_FULL`,
    /// `STORE_READ_ONLY`, `JOURNAL_VERSION`, `JOURNAL_CORRUPT`. Nothing is made, sent or recorded
    /// then; a torn tail may have been cut.
    ///
    /// # Cancel safety
    /// Dropped before it returns, the bus opens and stops again in the background.
    pub async fn open(self) -> Result<Bus, Error> {
        self.config.validate()?;
        if self.is_kept && self.config.store.durability == Durability::Memory {
            let text = "durability memory keeps nothing in a data directory; leave one of them out";
            return Err(Refused::new(Code::InvalidArgument, text).into());
        }
        blocking(move || self.open_blocking()).await?
    }

    fn open_blocking(self) -> Result<Bus, Error> {
        let Builder { config, disk, is_kept: _, factories, observer, origin } = self;
        let janitor = Arc::new(Janitor::default());
        let watcher: Arc<dyn SnapshotsWanted> = Arc::clone(&janitor) as Arc<dyn SnapshotsWanted>;
        let store: Arc<dyn Store> = match (config.store.durability, disk) {
            (Durability::Memory, _) => Arc::new(MemoryStore::new(&config.store)),
            (_, Some(disk)) => Arc::new(LogStore::open(disk, &config.store, watcher)?),
            (Durability::Sync | Durability::Written, None) => {
                let text = "a bus that keeps its journals needs a data directory";
                return Err(Refused::new(Code::InvalidConfig, text).into());
            }
        };
        if let Some(fault) = store.fault() {
            return Err(fault.into());
        }
        let (stream, graph) = Stream::open(Arc::clone(&store), &config.store)?;
        // Before anything starts: what another one left is not to be gone on with.
        let dedication = match origin {
            Some(origin) if !graph.dedicate(origin.clone())?.is_empty() => Some(origin),
            Some(_) | None => None,
        };
        let mut survey = recovery::survey(&*store, &graph, config.life.load_parallel)?;
        let mut report = store.recovery();
        // Damage below the saved heads shows when a session is folded.
        for id in &survey.quarantined {
            if !report.quarantined.contains(id) {
                report.quarantined.push(*id);
            }
        }
        let recovery = Recovery { store: report, resumed: survey.resume.len() as u64 };
        let (supervisor, requests) = SupervisorHandle::new();
        let clock = Arc::new(SystemClock::default());
        let parts = Parts { store, config, factories, observer, clock, supervisor };
        let shared = Shared::start(parts)?;
        shared.keep_folded(std::mem::take(&mut survey.folded));
        for (id, count) in &survey.pending {
            shared.cell(*id).add_pending(*count);
        }
        for id in &survey.ended {
            shared.without_agent(*id);
        }
        for id in &survey.failed {
            shared.failed_for_good(*id);
        }
        let house =
            Arc::new(House { shared: Arc::clone(&shared), recovery, stop: Stop::default() });
        supervise(&shared, (stream, graph), requests)?;
        if let Some(origin) = dedication {
            dedicate(&shared, origin)?;
        }
        settle(&shared, &survey)?;
        // Recovery is over: from here on sessions are loaded, by the cleaner's wish too.
        for id in &survey.closing {
            let (reply, _answer) = oneshot::channel();
            shared.supervisor.ask(Request::Close { id: *id, reply });
        }
        for id in &survey.resume {
            shared.cell(*id).push(Control::Load);
        }
        janitor.attach(&shared);
        let report = &house.recovery.store;
        tracing::info!(
            groups = report.groups,
            frames = report.frames,
            cut_bytes = report.cut_bytes,
            quarantined = report.quarantined.len(),
            resumed = house.recovery.resumed,
            "the bus is open"
        );
        Ok(Bus { house })
    }
}

/// Starts the supervisor on a thread of its own.
fn supervise(
    shared: &Arc<Shared>,
    stream: (Stream, Graph),
    requests: mpsc::UnboundedReceiver<Request>,
) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(no_thread)?;
    let shared = Arc::clone(shared);
    let run = move || {
        let supervisor = Supervisor::new(shared, stream, requests);
        LocalSet::new().block_on(&runtime, supervisor.run());
    };
    let thread = std::thread::Builder::new().name("callboard-supervisor".to_owned());
    thread.spawn(run).map(drop).map_err(no_thread)
}

fn no_thread(error: std::io::Error) -> Error {
    Fault::new(Code::StoreUnusable, format!("the system gives no thread: {error}")).into()
}

/// The one stop of a bus, whoever asks for it and however often.
#[derive(Default)]
pub(super) struct Stop {
    begun: AtomicBool,
    outcome: watch::Sender<Option<Result<(), Error>>>,
}

impl Stop {
    /// Has the bus stop in the background: sessions, supervisor, store. Once.
    pub(super) fn begin(&self, shared: &Arc<Shared>) {
        if self.begun.swap(true, Ordering::AcqRel) {
            return;
        }
        shared.begin_shut_down();
        let (shared, outcome) = (Arc::clone(shared), self.outcome.clone());
        let failed = self.outcome.clone();
        let stopping = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let stopped = runtime.map_err(no_thread).and_then(|it| it.block_on(in_order(&shared)));
            match &stopped {
                Ok(()) => tracing::info!("the bus has stopped"),
                Err(error) => tracing::error!(%error, "the bus could not flush when it stopped"),
            }
            outcome.send_replace(Some(stopped));
        };
        let thread = std::thread::Builder::new().name("callboard-stop".to_owned());
        if let Err(error) = thread.spawn(stopping) {
            tracing::error!(%error, "no thread to stop the bus");
            failed.send_replace(Some(Err(no_thread(error))));
        }
    }

    /// Waits until the bus has stopped.
    ///
    /// # Cancel safety
    /// The stop goes on.
    pub(super) async fn wait(&self) -> Result<(), Error> {
        let mut outcome = self.outcome.subscribe();
        let stopped = outcome.wait_for(Option::is_some).await;
        stopped.ok().and_then(|stopped| stopped.clone()).unwrap_or(Ok(()))
    }
}

async fn in_order(shared: &Shared) -> Result<(), Error> {
    let (quiesced, quiet) = oneshot::channel();
    shared.supervisor.ask(Request::Quiesce { quiesced });
    // What takes longer, on a journal without room, is settled by the next opening.
    drop(tokio::time::timeout(shared.config.life.stop_max, quiet).await);
    shared.shut_down().await;
    let (ended, over) = oneshot::channel();
    shared.supervisor.ask(Request::Stop { ended });
    // An error says that the supervisor has ended before.
    drop(over.await);
    shared.store.close().map_err(Error::from)
}

/// Records what a fresh directory is for.
fn dedicate(shared: &Shared, origin: Origin) -> Result<(), Error> {
    let (reply, answer) = oneshot::channel();
    shared.supervisor.ask(Request::Dedicate { origin, reply });
    answer.blocking_recv().unwrap_or(Err(Error::Ended(Ended::Closed)))
}

/// Gives every half-made session one answer.
fn settle(shared: &Shared, survey: &Survey) -> Result<(), Error> {
    let mut answers = Vec::new();
    for (id, proven) in &survey.half_made {
        let (reply, answer) = oneshot::channel();
        let text = "the process ended while the session was being made";
        let cut_off = || Error::Fault(Fault::new(Code::NotDurable, text));
        let outcome = if *proven { Ok(()) } else { Err(cut_off()) };
        shared.supervisor.ask(Request::Made { id: *id, outcome, reply });
        answers.push(answer);
    }
    for answer in answers {
        match answer.blocking_recv() {
            Ok(Ok(_) | Err(Error::Fault(Fault { code: Code::NotDurable, .. }))) => {}
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(Error::Ended(Ended::Closed)),
        }
    }
    Ok(())
}

/// Runs a blocking call on a thread of its own, so that no runtime is needed or held.
pub(super) async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let (done, outcome) = oneshot::channel();
    let thread = std::thread::Builder::new().name("callboard-blocking".to_owned());
    thread.spawn(move || drop(done.send(call()))).map_err(no_thread)?;
    outcome.await.map_err(|_| Error::Ended(Ended::Closed))
}

/// Passes the cleaner's wish for snapshots on to the sessions.
#[derive(Default)]
struct Janitor {
    shared: OnceLock<Weak<Shared>>,
}

impl Janitor {
    fn attach(&self, shared: &Arc<Shared>) {
        self.shared.get_or_init(|| Arc::downgrade(shared));
    }
}

impl SnapshotsWanted for Janitor {
    fn wanted(&self, sessions: Vec<SessionId>) {
        let Some(shared) = self.shared.get().and_then(Weak::upgrade) else { return };
        for id in sessions {
            if id == SessionId::SUPERVISOR {
                shared.supervisor.ask(Request::Snapshot);
            } else {
                shared.cell(id).push(Control::Snapshot);
            }
        }
    }
}
