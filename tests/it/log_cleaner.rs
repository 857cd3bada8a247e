//! Freeing old segments, and what happens when there is no room.

use std::sync::Arc;

use callboard::config::{History, StoreConfig};
use callboard::error::Code;
use callboard::persist::log::LogStore;
use callboard::persist::sim_disk::CallKind;
use callboard::persist::store::{NoPermit, Purpose, Store, Urgency};
use callboard::persist::{Disk, SimDisk};
use callboard::protocol::{SessionId, Timestamp};

use crate::log_world::{Session, Wanted, id, inline, payloads, small};

fn log_files(disk: &SimDisk) -> usize {
    disk.list("log").unwrap().len()
}

/// A store, and sessions that snapshot when they are asked to.
struct Cleaned {
    store: LogStore,
    wanted: Arc<Wanted>,
    sessions: Vec<Session>,
}

impl Cleaned {
    fn open(disk: &SimDisk, config: &StoreConfig, n_sessions: u8) -> Cleaned {
        let wanted = Arc::new(Wanted::default());
        let store = LogStore::open_inline(Arc::new(disk.clone()), config, wanted.clone()).unwrap();
        let sessions = (0..n_sessions).map(|n| Session::begin(&store, id(n))).collect();
        Cleaned { store, wanted, sessions }
    }

    fn snapshot_the_wanted(&mut self) -> usize {
        let wanted = std::mem::take(&mut *self.wanted.0.lock().unwrap());
        for session in &wanted {
            let n = usize::from(session.to_bytes()[0]);
            if let Err(NoPermit::Fault(fault)) = self.sessions[n].snapshot(&self.store, &[b"state"])
            {
                assert_eq!(fault.code, Code::StoreFull);
            }
        }
        wanted.len()
    }
}

#[test]
fn m61_the_log_stays_bounded_while_cold_sessions_are_asked_for_snapshots() {
    let disk = SimDisk::new();
    let config = StoreConfig { history: History::Drop, ..small() };
    let mut cleaned = Cleaned::open(&disk, &config, 8);
    // Seven write once and fall silent; one writes on.
    for n in 0..8 {
        cleaned.sessions[n].put(&cleaned.store, b"[\"first\"]");
    }
    let mut asked = 0;
    let mut most = 0;
    for n in 0..300_u32 {
        cleaned.sessions[0].put(&cleaned.store, format!("[{n}]").as_bytes());
        asked += cleaned.snapshot_the_wanted();
        most = most.max(log_files(&disk));
    }
    assert!(asked >= 8, "the sessions were asked for snapshots");
    assert!(most < 40, "the log grew to {most} segments");
    let replay = cleaned.store.replay(id(7)).unwrap();
    assert_eq!(payloads(&replay), ["state"]);
    assert!(cleaned.store.used_bytes() < 40 * 8_192);
    drop(cleaned);
    let store = inline(&disk.kill(), &config);
    assert_eq!(store.heads().len(), 8);
    assert_eq!(payloads(&store.replay(id(7)).unwrap()), ["state"]);
    assert_eq!(store.recovery().quarantined, []);
}

#[test]
fn a_log_that_was_cleaned_opens_without_its_heads() {
    let disk = SimDisk::new();
    let config = StoreConfig { history: History::Drop, ..small() };
    let mut cleaned = Cleaned::open(&disk, &config, 4);
    for n in 0..200_usize {
        cleaned.sessions[n % 4].put(&cleaned.store, format!("[{n}]").as_bytes());
        cleaned.snapshot_the_wanted();
    }
    let before: Vec<_> = (0..4).map(|n| payloads(&cleaned.store.replay(id(n)).unwrap())).collect();
    drop(cleaned);
    let disk = disk.kill();
    assert!(!disk.list("log").unwrap().contains(&format!("{:016x}", 0)));
    disk.remove("heads").unwrap();
    let store = inline(&disk, &config);
    assert_eq!(store.recovery().quarantined, []);
    let after: Vec<_> = (0..4).map(|n| payloads(&store.replay(id(n)).unwrap())).collect();
    assert_eq!(after, before);
}

#[test]
fn kept_segments_are_still_read_as_history() {
    let disk = SimDisk::new();
    let mut cleaned = Cleaned::open(&disk, &small(), 2);
    for n in 0..150_u32 {
        cleaned.sessions[0].put(&cleaned.store, format!("[{n}]").as_bytes());
        cleaned.snapshot_the_wanted();
    }
    assert!(!disk.list("history").unwrap().is_empty());
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let page = cleaned.store.history(id(0), before, 7).unwrap();
        seen.extend(page.frames.into_iter().map(|frame| frame.payload));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    let expected: Vec<_> = (0..150).rev().map(|n: u32| format!("[{n}]").into_bytes()).collect();
    assert_eq!(seen, expected);
}

#[test]
fn f43_a_full_disk_refuses_sends_first_and_serves_again_when_room_is_back() {
    let disk = SimDisk::new();
    let config = StoreConfig { history: History::Drop, ..small() };
    let mut cleaned = Cleaned::open(&disk, &config, 2);
    cleaned.sessions[0].put(&cleaned.store, b"[0]");
    disk.set_capacity(Some(disk.used_bytes() + 10_000));
    let send = (Purpose::Send, Urgency::Now);
    let settle = (Purpose::Settle, Urgency::Now);
    let mut n_sent = 0;
    let fault = loop {
        match cleaned.sessions[0].try_append(&cleaned.store, b"[1]", send) {
            Ok(_) => n_sent += 1,
            Err(NoPermit::Fault(fault)) => break fault,
            Err(NoPermit::Wait) => panic!("nothing is under way"),
        }
        assert!(n_sent < 100, "the disk has no room for this");
    };
    assert_eq!(fault.code, Code::StoreFull);
    assert_eq!(cleaned.sessions[0].told.now().failed, None, "no send was touched");
    cleaned.sessions[1].try_append(&cleaned.store, b"[2]", settle).unwrap();
    assert_eq!(cleaned.sessions[1].told.now().failed, None, "what settles goes on");
    assert_eq!(cleaned.store.fault(), None);
    disk.set_capacity(None);
    cleaned.store.tick(Timestamp(10_000));
    cleaned.sessions[0].try_append(&cleaned.store, b"[3]", send).unwrap();
    assert_eq!(cleaned.sessions[0].told.now().failed, None);
    drop(cleaned);
    let store = inline(&disk.kill(), &config);
    assert_eq!(store.replay(id(0)).unwrap().frames.len(), n_sent + 2);
    assert_eq!(payloads(&store.replay(id(1)).unwrap()), ["[2]"]);
}

#[test]
fn a_log_of_many_short_lives_is_cleaned_and_its_heads_are_saved() {
    let mut disk = SimDisk::new();
    let config = StoreConfig { history: History::Drop, ..small() };
    let (mut most, mut read) = (0, 0);
    for n in 0..120_u32 {
        let mut cleaned = Cleaned::open(&disk, &config, 2);
        read = read.max(cleaned.store.recovery().groups);
        cleaned.sessions[0].put(&cleaned.store, format!("[{n}]").as_bytes());
        cleaned.snapshot_the_wanted();
        most = most.max(log_files(&disk));
        drop(cleaned);
        disk = disk.kill();
    }
    assert!(read < 20, "an opening read {read} groups after the saved heads");
    assert!(most < 40, "the log grew to {most} segments");
}

#[test]
fn sessions_that_do_not_answer_the_cleaner_do_not_keep_others_from_being_asked() {
    let disk = SimDisk::new();
    let config = StoreConfig { history: History::Drop, ..small() };
    let wanted = Arc::new(Wanted::default());
    let store = LogStore::open_inline(Arc::new(disk), &config, wanted.clone()).unwrap();
    let numbered = |n: u16| {
        let mut bytes = [7; 16];
        bytes[..2].copy_from_slice(&n.to_be_bytes());
        SessionId::from_bytes(bytes)
    };
    for n in 0..300 {
        let mut cold = Session::begin(&store, numbered(n));
        cold.try_append(&store, b"[0]", (Purpose::Settle, Urgency::Lazy)).unwrap();
        if n % 20 == 19 {
            store.urge();
        }
    }
    let mut hot = Session::begin(&store, id(0));
    let (mut asked, mut most) = (std::collections::BTreeSet::new(), 0);
    for n in 0..400_u32 {
        hot.put(&store, format!("[{n}]").as_bytes());
        let now = std::mem::take(&mut *wanted.0.lock().unwrap());
        most = most.max(now.len());
        asked.extend(now);
    }
    assert!((0..300).all(|n| asked.contains(&numbered(n))), "{} were asked", asked.len());
    assert!(most <= 128, "{most} were asked at once");
}

#[test]
fn many_heads_are_not_saved_again_for_each_segment_that_is_freed() {
    let disk = SimDisk::new();
    let config = StoreConfig { history: History::Drop, heads_every: 1 << 30, ..small() };
    let mut cleaned = Cleaned::open(&disk, &config, 4);
    let numbered = |n: u32| {
        let mut bytes = [7; 16];
        bytes[..4].copy_from_slice(&n.to_be_bytes());
        SessionId::from_bytes(bytes)
    };
    for n in 0..1_000 {
        let mut cold = Session::begin(&cleaned.store, numbered(n));
        cold.try_append(&cleaned.store, b"[0]", (Purpose::Settle, Urgency::Lazy)).unwrap();
        cold.snapshot(&cleaned.store, &[b"0"]).unwrap();
    }
    for n in 0..400_usize {
        cleaned.sessions[n % 4].put(&cleaned.store, &[b'1'; 2_000]);
        cleaned.sessions[n % 4].snapshot(&cleaned.store, &[b"state"]).unwrap();
    }
    let newest = disk.list("log").unwrap().into_iter().max().unwrap();
    let n_segments = u64::from_str_radix(&newest, 16).unwrap() + 1;
    // What is renamed is the description, each segment once, and the heads each time.
    let n_saves = disk.calls_of(CallKind::Rename) - 1 - n_segments;
    let most = n_segments * 8_192 / (4 * 60 * 1_000) + 1;
    assert!(n_saves <= most, "the heads were saved {n_saves} times for {n_segments} segments");
    let n_left = disk.list("log").unwrap().len() as u64;
    assert!(n_left + 100 < n_segments, "{n_left} of {n_segments} segments are left");
}
