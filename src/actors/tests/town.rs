//! A life over the memory store, with a supervisor that allows every route but the forbidden ones.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use uuid::Uuid;

use crate::actors::load;
use crate::actors::{
    AgentError, Control, Driver, Factory, Fallen, Observer, Parts, Receipt, Request, Route, Seed,
    Shared, SupervisorHandle, SystemClock, driver,
};
use crate::config::{Config, Durability};
use crate::error::{Error, Refused};
use crate::persist::{MemoryStore, Store};
use crate::protocol::session::{BodySpec, Created, Inspection, Verdict};
use crate::protocol::{Draft, Label, Message, SessionId};

pub(super) struct Town {
    pub(super) shared: Arc<Shared>,
    pub(super) fallen: Arc<Mutex<Vec<Fallen>>>,
    pub(super) forbidden: Arc<Mutex<Vec<SessionId>>>,
    pub(super) seen: Arc<Seen>,
    labels: Arc<Mutex<HashMap<Label, SessionId>>>,
}

/// Counts what an observer is shown.
#[derive(Default)]
pub(super) struct Seen(AtomicU64, AtomicU64, AtomicU64);

impl Seen {
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.0), read(&self.1), read(&self.2))
    }
}

impl Observer for Seen {
    fn accepted(&self, _: &Message) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn handled(&self, _: &Message) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
    fn dead(&self, _: &Message) {
        self.2.fetch_add(1, Ordering::Relaxed);
    }
}

pub(super) type Made = Result<Box<dyn crate::actors::Agent>, AgentError>;

impl Town {
    pub(super) fn new(config: Config, factories: Vec<(&str, Arc<dyn Factory>)>) -> Self {
        let store = Arc::new(MemoryStore::new(&config.store));
        Town::over(store, config, factories)
    }

    pub(super) fn over(
        store: Arc<dyn Store>,
        mut config: Config,
        factories: Vec<(&str, Arc<dyn Factory>)>,
    ) -> Self {
        config.store.durability = Durability::Memory;
        config.life.arbiters = 2;
        config.validate().unwrap();
        let (supervisor, mut requests) = SupervisorHandle::new();
        let seen = Arc::<Seen>::default();
        let parts = Parts {
            config,
            store,
            factories: factories.into_iter().map(|(name, made)| (name.to_owned(), made)).collect(),
            observer: Some(Arc::clone(&seen) as _),
            clock: Arc::new(SystemClock::default()),
            supervisor,
        };
        let shared = Shared::start(parts).unwrap();
        let town = Town {
            shared: Arc::clone(&shared),
            fallen: Arc::default(),
            forbidden: Arc::default(),
            seen,
            labels: Arc::default(),
        };
        let (fallen, forbidden, labels) =
            (Arc::clone(&town.fallen), Arc::clone(&town.forbidden), Arc::clone(&town.labels));
        std::thread::spawn(move || {
            while let Some(request) = requests.blocking_recv() {
                match request {
                    Request::Route { to, reply, .. } => {
                        let route = Route::new(shared.cell(to), Verdict::Allowed);
                        let denied = forbidden.lock().unwrap().contains(&to);
                        let denied = denied.then(|| Refused::not_found().into());
                        reply.answer(denied.map_or(Ok(route), Err));
                    }
                    Request::Delivery { to, reply, .. } => {
                        let cell = shared.cell(to);
                        reply.answer(Route::new(cell, Verdict::Allowed));
                    }
                    Request::Find { label, reply, .. } => {
                        let found = labels.lock().unwrap().get(&label).copied();
                        drop(reply.send(found.ok_or_else(|| Refused::not_found().into())));
                    }
                    Request::Peers { reply, .. } => drop(reply.send(Ok(Vec::new()))),
                    Request::Fallen { id, why } => {
                        fallen.lock().unwrap().push(why);
                        shared.cell(id).push(Control::Respawn);
                    }
                    other => drop(other),
                }
            }
        });
        town
    }

    pub(super) async fn create(&self, label: &str, body: BodySpec) -> SessionId {
        let id = SessionId::new(Uuid::now_v7());
        let label = Label::new(label).unwrap();
        self.labels.lock().unwrap().insert(label.clone(), id);
        let created = Created { id, label, workspace: None, body };
        self.shared.call(id, |reply| Control::Create { created, reply }).await.unwrap();
        id
    }

    pub(super) async fn agent(&self, label: &str, name: &str) -> SessionId {
        self.create(label, BodySpec::Agent { name: name.to_owned(), settings: None }).await
    }

    pub(super) async fn driver(&self, label: &str) -> Driver {
        let id = self.create(label, BodySpec::Driver).await;
        Driver::attach(&self.shared, id).await.unwrap()
    }

    pub(super) async fn send(&self, from: SessionId, to: SessionId, text: &str) -> Sent {
        driver::send(&self.shared, from, Draft::text(to, text), false).await
    }

    pub(super) async fn inspect(&self, id: SessionId) -> Inspection {
        match self.shared.look(id).await.unwrap() {
            Some(inspection) => inspection,
            None => {
                let state = load::fold(&*self.shared.store, id).unwrap().unwrap();
                let label = state.created.as_ref().map(|created| created.label.clone()).unwrap();
                state.inspection((id, &label), false)
            }
        }
    }
}

pub(super) type Sent = Result<Receipt, Error>;

/// A factory from a closure.
pub(super) fn factory(make: impl Fn(Seed) -> Made + Send + Sync + 'static) -> Arc<dyn Factory> {
    Arc::new(make)
}
