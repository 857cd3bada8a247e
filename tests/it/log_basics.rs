//! The log store in quiet waters: what is appended is read back, also by the next opening.

use callboard::config::{Durability, StoreConfig};
use callboard::error::Code;
use callboard::persist::store::{Head, Purpose, Store, Urgency};
use callboard::persist::{RealDisk, SimDisk};
use callboard::protocol::Timestamp;

use crate::log_world::{Session, id, inline, payloads, small, threaded, try_inline};

#[test]
fn what_was_settled_is_replayed_by_the_next_opening() {
    let dir = tempfile::tempdir().unwrap();
    let disk = RealDisk::new(dir.path().join("data"));
    for (closed, round) in [(true, 0), (false, 1), (true, 2), (false, 3)] {
        let store = threaded(&disk, &small());
        assert_eq!(store.heads().len(), if round == 0 { 0 } else { 20 });
        for n in 0..20 {
            let mut session = Session::begin(&store, id(n));
            session.put(&store, format!("[{round},{n}]").as_bytes());
            session.put(&store, b"[]");
            let replay = store.replay(id(n)).unwrap();
            assert_eq!(replay.frames.len(), 2 * (round + 1));
            assert_eq!(payloads(&replay)[2 * round], format!("[{round},{n}]"));
            session.end(&store);
        }
        if closed {
            store.close().unwrap();
        }
    }
}

#[test]
fn m60_many_writers_share_one_flush_and_are_all_told() {
    let dir = tempfile::tempdir().unwrap();
    let disk = RealDisk::new(dir.path().join("data"));
    let store =
        threaded(&disk, &StoreConfig { segment_bytes: 1 << 20, frame_max: 65_536, ..small() });
    std::thread::scope(|scope| {
        for n in 1..=8 {
            let store = &store;
            scope.spawn(move || {
                let mut session = Session::begin(store, id(n));
                for k in 0..500_u32 {
                    session.append(store, format!("[{k}]").as_bytes());
                }
                session.put(store, b"[500]");
                session.end(store);
            });
        }
    });
    for n in 1..=8 {
        let replay = store.replay(id(n)).unwrap();
        let expected: Vec<String> = (0..=500).map(|k| format!("[{k}]")).collect();
        assert_eq!(payloads(&replay), expected);
    }
    store.close().unwrap();
    let store = threaded(&disk, &small());
    assert_eq!(store.recovery().groups, 0, "an orderly stop leaves nothing to read but heads");
    assert_eq!(store.replay(id(3)).unwrap().frames.len(), 501);
}

#[test]
fn a_snapshot_of_several_parts_replaces_what_is_before_it() {
    let disk = SimDisk::new();
    let store = inline(&disk, &small());
    let mut session = Session::begin(&store, id(1));
    for n in 0..10 {
        session.put(&store, format!("[{n}]").as_bytes());
    }
    let big = vec![b'x'; 2_000];
    // Parts over several segments.
    session.snapshot(&store, &[&big, &big, &big, &big, &big, b"end"]).unwrap();
    session.put(&store, b"[10]");
    let check = |store: &dyn Store| {
        let replay = store.replay(id(1)).unwrap();
        assert_eq!(replay.snapshot.len(), 6);
        assert_eq!(replay.snapshot[5], b"end");
        let frames: Vec<_> = replay.frames.iter().map(|frame| &frame.payload[..]).collect();
        assert_eq!(frames, [b"[10]"]);
        let page = store.history(id(1), None, 4).unwrap();
        assert_eq!(page.frames.len(), 4);
        assert_eq!(page.frames[0].payload, b"[10]");
        let page = store.history(id(1), page.next, 100).unwrap();
        assert_eq!(page.frames.len(), 7);
        assert_eq!(page.frames[6].previous, None);
        assert_eq!(page.next, None);
    };
    check(&store);
    drop(store);
    check(&inline(&disk.kill(), &small()));
}

#[test]
fn f34_a_second_opening_is_told_who_holds_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let disk = RealDisk::new(dir.path().join("data"));
    let store = inline(&disk, &small());
    let fault = try_inline(&disk, &small()).err().unwrap();
    assert_eq!(fault.code, Code::StoreLocked);
    assert!(fault.text.contains(&format!("process {}", std::process::id())), "{fault}");
    store.close().unwrap();
    inline(&disk, &small());
}

#[test]
fn a_lazy_append_rides_along_or_waits_for_its_time() {
    let store = inline(&SimDisk::new(), &small());
    let mut one = Session::begin(&store, id(1));
    let mut two = Session::begin(&store, id(2));
    let lazy = (Purpose::Settle, Urgency::Lazy);
    let settled = |session: &Session| {
        session.told.now().settled.get(&session.load.number).copied().unwrap_or(0)
    };
    one.try_append(&store, b"[1]", lazy).unwrap();
    assert_eq!(settled(&one), 0);
    two.append(&store, b"[]");
    assert_eq!((settled(&one), settled(&two)), (1, 1), "it rode along");
    one.try_append(&store, b"[2]", lazy).unwrap();
    store.urge();
    assert_eq!(settled(&one), 2, "it was urged");
    store.tick(Timestamp(5_000));
    one.try_append(&store, b"[3]", lazy).unwrap();
    store.tick(Timestamp(5_999));
    assert_eq!(settled(&one), 2, "its time has not come");
    store.tick(Timestamp(6_000));
    assert_eq!(settled(&one), 3, "its time has come");
}

#[test]
fn nothing_of_an_ended_load_is_written_and_the_next_load_sees_what_was() {
    let store = inline(&SimDisk::new(), &small());
    let mut session = Session::begin(&store, id(1));
    session.put(&store, b"[1]");
    let load = session.load;
    let permit = store.permit(load, 3, Purpose::Settle).unwrap();
    session.end(&store);
    assert!(store.permit(load, 3, Purpose::Settle).is_err());
    drop(permit);
    let mut next = Session::begin(&store, id(1));
    assert!(next.load.number > load.number);
    assert_eq!(payloads(&store.replay(id(1)).unwrap()), ["[1]"]);
    next.put(&store, b"[2]");
    assert_eq!(payloads(&store.replay(id(1)).unwrap()), ["[1]", "[2]"]);
}

#[test]
fn f05_in_written_durability_a_run_is_never_used_twice() {
    let config = StoreConfig { durability: Durability::Written, ..small() };
    let mut disk = SimDisk::new();
    let mut runs = Vec::new();
    for seed in 0..10 {
        let store = inline(&disk, &config);
        let mut session = Session::begin(&store, id(1));
        session.put(&store, b"[1]");
        session.put(&store, b"[2]");
        runs.push(store.recovery().run);
        drop(store);
        disk = disk.crash_seeded(seed);
    }
    let mut sorted = runs.clone();
    sorted.dedup();
    assert_eq!(sorted, runs);
}

#[test]
fn every_session_is_known_by_its_head() {
    let store = inline(&SimDisk::new(), &small());
    for n in 1..=3 {
        Session::begin(&store, id(n)).put(&store, b"[]");
    }
    Session::begin(&store, id(9));
    let mut heads = store.heads();
    heads.sort_by_key(|head| head.session);
    let known: Vec<_> = heads.iter().map(|head: &Head| head.session).collect();
    assert_eq!(known, [id(1), id(2), id(3)], "a session without frames has no head");
}
