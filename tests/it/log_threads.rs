//! The committer's and the keeper's threads under writers, readers and the cleaner at once.

use std::sync::Arc;

use callboard::config::{Durability, History, StoreConfig};
use callboard::persist::RealDisk;
use callboard::persist::log::{LogReader, LogStore};
use callboard::persist::store::{NoPermit, Store};

use crate::log_world::{Session, Wanted, id, payloads, small, threaded};

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
