//! What the scenarios of the log are told with: sessions that append numbers and remember what
//! they were told.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};

use callboard::config::{History, StoreConfig};
use callboard::error::Fault;
use callboard::persist::Disk;
use callboard::persist::log::LogStore;
use callboard::persist::store::{
    Append, Load, NoPermit, Payload, Purpose, Replay, SnapshotsWanted, Store, Tickets, Urgency,
};
use callboard::protocol::{SessionId, Timestamp};

/// The smallest limits.
pub(crate) fn small() -> StoreConfig {
    StoreConfig {
        segment_bytes: 8_192,
        frame_max: 2_048,
        heads_every: 16_384,
        history: History::Keep,
        ..StoreConfig::default()
    }
}

pub(crate) fn id(n: u8) -> SessionId {
    SessionId::from_bytes([n; 16])
}

/// Who remembers what the cleaner asked for.
#[derive(Default)]
pub(crate) struct Wanted(pub(crate) Mutex<Vec<SessionId>>);

impl SnapshotsWanted for Wanted {
    fn wanted(&self, sessions: Vec<SessionId>) {
        self.0.lock().unwrap().extend(sessions);
    }
}

/// What a load was told.
#[derive(Default)]
pub(crate) struct Told {
    state: Mutex<ToldState>,
    more: Condvar,
}

#[derive(Default, Clone)]
pub(crate) struct ToldState {
    /// The newest ticket on disk, by load.
    pub(crate) settled: HashMap<u64, u64>,
    /// The first failure.
    pub(crate) failed: Option<(u64, Fault)>,
    pub(crate) rooms: usize,
    pub(crate) ended: bool,
}

impl Tickets for Told {
    fn settled(&self, load: u64, ticket: u64, outcome: Result<(), Fault>) {
        let mut state = self.state.lock().unwrap();
        match outcome {
            Ok(()) => {
                let before = state.settled.insert(load, ticket).unwrap_or(0);
                assert!(before < ticket, "tickets are settled in order, each once");
                assert!(state.failed.is_none(), "settled after a failure");
            }
            Err(fault) => {
                state.failed.get_or_insert((ticket, fault));
            }
        }
        self.more.notify_all();
    }

    fn room(&self) {
        self.state.lock().unwrap().rooms += 1;
        self.more.notify_all();
    }
}

impl Told {
    pub(crate) fn now(&self) -> ToldState {
        self.state.lock().unwrap().clone()
    }

    pub(crate) fn wait(&self, until: impl Fn(&ToldState) -> bool) -> ToldState {
        let mut state = self.state.lock().unwrap();
        while !until(&state) {
            state = self.more.wait(state).unwrap();
        }
        state.clone()
    }

    pub(crate) fn end(&self) {
        self.state.lock().unwrap().ended = true;
        self.more.notify_all();
    }
}

/// One loaded session.
pub(crate) struct Session {
    pub(crate) load: Load,
    pub(crate) told: Arc<Told>,
    pub(crate) ticket: u64,
}

impl Session {
    pub(crate) fn begin(store: &dyn Store, id: SessionId) -> Session {
        let told = Arc::new(Told::default());
        let load = store.begin(id, told.clone()).unwrap();
        Session { load, told, ticket: 0 }
    }

    /// Hands over one frame; the ticket, or why there is no permit.
    pub(crate) fn try_append(
        &mut self,
        store: &dyn Store,
        payload: &[u8],
        (purpose, urgency): (Purpose, Urgency),
    ) -> Result<u64, NoPermit> {
        let permit = store.permit(self.load, payload.len(), purpose)?;
        self.ticket += 1;
        let append = Append {
            ticket: self.ticket,
            payload: Payload::Events(payload.to_vec().into()),
            pending: false,
            urgency,
            time: Timestamp(self.ticket),
        };
        store.append(permit, append);
        Ok(self.ticket)
    }

    /// Hands over one frame, when there is room.
    pub(crate) fn append(&mut self, store: &dyn Store, payload: &[u8]) -> u64 {
        loop {
            let rooms = self.told.now().rooms;
            match self.try_append(store, payload, (Purpose::Settle, Urgency::Now)) {
                Ok(ticket) => return ticket,
                Err(NoPermit::Wait) => self.told.wait(|state| state.rooms > rooms),
                Err(NoPermit::Fault(fault)) => panic!("{fault}"),
            };
        }
    }

    /// Appends and waits until it is on disk.
    pub(crate) fn put(&mut self, store: &dyn Store, payload: &[u8]) {
        let ticket = self.append(store, payload);
        let load = self.load.number;
        let state = self.told.wait(|state| {
            state.failed.is_some() || state.settled.get(&load).is_some_and(|t| *t >= ticket)
        });
        assert_eq!(state.failed, None);
    }

    pub(crate) fn snapshot(&mut self, store: &dyn Store, parts: &[&[u8]]) -> Result<u64, NoPermit> {
        let payload = Payload::Snapshot(parts.iter().map(|part| part.to_vec().into()).collect());
        let permit = store.permit(self.load, payload.len(), Purpose::Clean)?;
        self.ticket += 1;
        let append = Append {
            ticket: self.ticket,
            payload,
            pending: false,
            urgency: Urgency::Now,
            time: Timestamp(self.ticket),
        };
        store.append(permit, append);
        Ok(self.ticket)
    }

    /// Ends the load and waits for the end.
    pub(crate) fn end(self, store: &dyn Store) {
        let told = self.told.clone();
        store.end(self.load, Box::new(move || told.end()));
        self.told.wait(|state| state.ended);
    }
}

/// Opens a store without threads.
pub(crate) fn inline(disk: &(impl Disk + Clone), config: &StoreConfig) -> LogStore {
    try_inline(disk, config).unwrap()
}

/// Opens a store without threads, or says why not.
pub(crate) fn try_inline(
    disk: &(impl Disk + Clone),
    config: &StoreConfig,
) -> Result<LogStore, Fault> {
    LogStore::open_inline(Arc::new(disk.clone()), config, Arc::new(Wanted::default()))
}

/// Opens a store with its threads.
pub(crate) fn threaded(disk: &(impl Disk + Clone), config: &StoreConfig) -> LogStore {
    LogStore::open(Arc::new(disk.clone()), config, Arc::new(Wanted::default())).unwrap()
}

/// Waits until as much log is ready as is kept ready.
pub(crate) fn until_ready(store: &dyn Store, session: &Session) {
    loop {
        let rooms = session.told.now().rooms;
        match store.permit(session.load, small().frame_max, Purpose::Send) {
            Ok(_) => return,
            Err(NoPermit::Wait) => session.told.wait(|state| state.rooms > rooms),
            Err(NoPermit::Fault(fault)) => panic!("{fault}"),
        };
    }
}

/// The payloads of a replay: the snapshot's, then the frames'.
pub(crate) fn payloads(replay: &Replay) -> Vec<String> {
    let frames = replay.frames.iter().map(|frame| &frame.payload);
    replay
        .snapshot
        .iter()
        .chain(frames)
        .map(|payload| String::from_utf8(payload.clone()).unwrap())
        .collect()
}
