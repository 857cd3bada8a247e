//! A store that fails when it is told to: tickets, permits and room.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::config::StoreConfig;
use crate::error::{Code, Fault};
use crate::persist::store::{
    Append, Head, HistoryPage, Load, NoPermit, Permit, Purpose, RecoveryReport, Replay, Tickets,
};
use crate::persist::{MemoryStore, Store};
use crate::protocol::SessionId;

/// Fails every so often; zero never.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Failures {
    /// Every so many appends, one fails, and with it the rest of its load.
    pub(super) ticket_every: u64,
    /// Every so many permits, one has to wait.
    pub(super) wait_every: u64,
    /// Every so many permits for sends, one finds the log full.
    pub(super) full_every: u64,
    /// Every so many permits for anything else, one finds the log full.
    pub(super) settle_full_every: u64,
    /// Every so many permits, one panics.
    pub(super) panic_every: u64,
    /// Replays find damage.
    pub(super) damaged: bool,
}

pub(super) struct Flaky {
    store: MemoryStore,
    failures: Mutex<Failures>,
    appends: AtomicU64,
    permits: AtomicU64,
    failed: Mutex<HashSet<Load>>,
    tickets: Mutex<std::collections::HashMap<SessionId, Arc<dyn Tickets>>>,
}

impl Flaky {
    pub(super) fn new(config: &StoreConfig, failures: Failures) -> Arc<Self> {
        Arc::new(Flaky {
            store: MemoryStore::new(config),
            failures: Mutex::new(failures),
            appends: AtomicU64::new(0),
            permits: AtomicU64::new(0),
            failed: Mutex::default(),
            tickets: Mutex::default(),
        })
    }

    pub(super) fn fail(&self, failures: Failures) {
        *self.failures.lock().unwrap() = failures;
    }

    fn failures(&self) -> Failures {
        *self.failures.lock().unwrap()
    }
}

fn due(count: u64, every: u64) -> bool {
    every > 0 && count.is_multiple_of(every)
}

impl Store for Flaky {
    fn heads(&self) -> Vec<Head> {
        self.store.heads()
    }

    fn begin(&self, session: SessionId, tickets: Arc<dyn Tickets>) -> Result<Load, Fault> {
        self.tickets.lock().unwrap().insert(session, Arc::clone(&tickets));
        self.store.begin(session, tickets)
    }

    fn replay(&self, session: SessionId) -> Result<Replay, Fault> {
        if self.failures().damaged {
            return Err(Fault::new(Code::JournalCorrupt, "a needed frame is damaged"));
        }
        self.store.replay(session)
    }

    fn permit(&self, load: Load, bytes: usize, purpose: Purpose) -> Result<Permit, NoPermit> {
        let count = self.permits.fetch_add(1, Ordering::Relaxed) + 1;
        let failures = self.failures();
        assert!(!due(count, failures.panic_every), "a bug in the actor");
        if due(count, failures.wait_every) {
            let tickets = Arc::clone(&self.tickets.lock().unwrap()[&load.session]);
            std::thread::spawn(move || tickets.room());
            return Err(NoPermit::Wait);
        }
        let every = match purpose {
            Purpose::Send => failures.full_every,
            Purpose::Settle => failures.settle_full_every,
            Purpose::Snapshot | Purpose::Clean => 0,
        };
        if due(count, every) {
            return Err(NoPermit::Fault(Fault::new(Code::StoreFull, "the log is full")));
        }
        self.store.permit(load, bytes, purpose)
    }

    fn append(&self, permit: Permit, append: Append) {
        let load = permit.load;
        let count = self.appends.fetch_add(1, Ordering::Relaxed) + 1;
        let mut failed = self.failed.lock().unwrap();
        if due(count, self.failures().ticket_every) {
            failed.insert(load);
        }
        if failed.contains(&load) {
            drop(failed);
            let tickets = Arc::clone(&self.tickets.lock().unwrap()[&load.session]);
            let fault = Fault::new(Code::NotDurable, "the flush failed");
            return tickets.settled(load.number, append.ticket, Err(fault));
        }
        drop(failed);
        self.store.append(permit, append);
    }

    fn urge(&self) {}

    fn end(&self, load: Load, ended: Box<dyn FnOnce() + Send>) {
        self.store.end(load, ended);
    }

    fn history(
        &self,
        session: SessionId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<HistoryPage, Fault> {
        self.store.history(session, before, limit)
    }

    fn recovery(&self) -> RecoveryReport {
        self.store.recovery()
    }

    fn used_bytes(&self) -> u64 {
        self.store.used_bytes()
    }

    fn fault(&self) -> Option<Fault> {
        self.store.fault()
    }

    fn close(&self) -> Result<(), Fault> {
        self.store.close()
    }
}
