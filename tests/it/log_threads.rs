//! The committer's and the keeper's threads under writers, readers and the cleaner at once.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use callboard::config::{Durability, History, StoreConfig};
use callboard::error::Fault;
use callboard::persist::log::{LogReader, LogStore};
use callboard::persist::store::{Append, NoPermit, Payload, Purpose, Store, Tickets, Urgency};
use callboard::persist::{Disk, RealDisk, SimDisk};
use callboard::protocol::Timestamp;

use crate::log_world::{Session, Wanted, id, payloads, small, threaded, until_ready};

const WRITERS: u8 = 4;
const ROUNDS: u32 = 600;

/// Appends numbers, takes a snapshot now and then, loads itself anew in between; the payloads of
/// its last replay.
fn write(store: &dyn Store, n: u8) -> Vec<String> {
    let mut session = Session::begin(store, id(n));
    for k in 0..ROUNDS {
        let text = format!("[{k},\"{}\"]", "x".repeat(700));
        if k % 8 == 7 {
            session.put(store, text.as_bytes())
        } else {
            session.append(store, text.as_bytes());
        }
        if k % 50 == 49 {
            let state = k.to_string();
            while let Err(NoPermit::Wait) = session.snapshot(store, &[state.as_bytes(), b"s"]) {
                std::thread::yield_now();
            }
        }
        if k % 120 == 119 {
            session.end(store);
            let replay = store.replay(id(n)).unwrap();
            let since = (k + 1) % 50;
            assert_eq!(replay.snapshot[0], (k - since).to_string().into_bytes());
            assert_eq!(replay.frames.len(), since as usize, "session {n} at {k}");
            session = Session::begin(store, id(n));
        }
    }
    session.put(store, b"[\"last\"]");
    session.end(store);
    payloads(&store.replay(id(n)).unwrap())
}

fn many_writers(config: &StoreConfig) {
    let dir = tempfile::tempdir().unwrap();
    let disk = RealDisk::new(dir.path().join("data"));
    let store =
        LogStore::open(Arc::new(disk.clone()), config, Arc::new(Wanted::default())).unwrap();
    let written: Vec<Vec<String>> = std::thread::scope(|scope| {
        let writers: Vec<_> = (1..=WRITERS)
            .map(|n| {
                let store = &store;
                scope.spawn(move || write(store, n))
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert_eq!(store.fault(), None);
    store.close().unwrap();
    drop(store);
    let report = LogReader::open(Arc::new(disk.clone())).unwrap().verify().unwrap();
    assert_eq!(report.damage, []);
    let freed = !std::fs::exists(disk.root().join("log/0000000000000000")).unwrap();
    assert!(freed, "the cleaner freed nothing");
    let store = threaded(&disk, config);
    for (n, before) in (1..=WRITERS).zip(written) {
        let after = payloads(&store.replay(id(n)).unwrap());
        assert!(after == before, "session {n} was replayed otherwise");
    }
}

#[test]
fn writers_readers_and_the_cleaner_do_not_get_in_each_others_way() {
    let segments = StoreConfig { segment_bytes: 32_768, heads_every: 65_536, ..small() };
    many_writers(&StoreConfig { history: History::Drop, ..segments.clone() });
    many_writers(&StoreConfig { durability: Durability::Written, ..segments });
}

/// Keeps the committer from going on until it is released.
struct Holds {
    held: Sender<()>,
    release: Mutex<Receiver<()>>,
}

impl Tickets for Holds {
    fn settled(&self, _: u64, _: u64, outcome: Result<(), Fault>) {
        outcome.unwrap();
        self.held.send(()).unwrap();
        self.release.lock().unwrap().recv().unwrap();
    }
    fn room(&self) {}
}

#[test]
fn f34_of_two_that_close_none_gives_the_directory_back_before_the_committer_has_ended() {
    let disk = SimDisk::new();
    let store = threaded(&disk, &StoreConfig { lazy_commit: Duration::from_secs(60), ..small() });
    let ((held, is_held), (go_on, release)) = (channel(), channel());
    let told = Arc::new(Holds { held, release: Mutex::new(release) });
    let load = store.begin(id(1), told).unwrap();
    until_ready(&store, &Session::begin(&store, id(2)));
    let append = Append {
        ticket: 1,
        payload: Payload::Events(b"[1]".to_vec().into()),
        pending: false,
        urgency: Urgency::Lazy,
        time: Timestamp(1),
    };
    store.append(store.permit(load, 3, Purpose::Settle).unwrap(), append);
    std::thread::scope(|scope| {
        let store = &store;
        scope.spawn(|| store.close().unwrap());
        is_held.recv().unwrap();
        let (done, is_done) = channel();
        scope.spawn(move || {
            store.close().unwrap();
            done.send(()).ok();
        });
        let early = is_done.recv_timeout(Duration::from_millis(100)).is_ok();
        let free = disk.lock("lock").unwrap().is_some();
        go_on.send(()).unwrap();
        assert!(!early && !free, "the directory was given back while it was written");
    });
    assert!(disk.lock("lock").unwrap().is_some());
    assert!(disk.list("").unwrap().contains(&"heads".to_owned()), "the end was orderly");
}
