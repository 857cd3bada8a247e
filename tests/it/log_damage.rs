//! Damage: what is detected, what is cut, who is quarantined, and that everybody else runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard::config::StoreConfig;
use callboard::error::Code;
use callboard::persist::log::LogReader;
use callboard::persist::sim_disk::{CallKind, DiskFault};
use callboard::persist::store::{NoPermit, Purpose, Store, Urgency};
use callboard::persist::{Disk, SimDisk};
use callboard::protocol::{SessionId, Timestamp};

use crate::log_world::{Session, id, inline, payloads, small, try_inline};

/// Few segments, and heads saved at the end only.
fn plain() -> StoreConfig {
    StoreConfig { segment_bytes: 1 << 16, heads_every: 1 << 30, ..small() }
}

type Content = BTreeMap<SessionId, Vec<String>>;

fn content(store: &dyn Store) -> Content {
    let heads = store.heads().into_iter().filter(|head| !head.quarantined);
    heads
        .filter_map(|head| {
            let replay = store.replay(head.session).ok()?;
            Some((head.session, payloads(&replay)))
        })
        .collect()
}

/// A small log of three sessions and the supervisor, and what is in it.
fn small_log(config: &StoreConfig, close: bool) -> (SimDisk, Content) {
    let disk = SimDisk::new();
    let store = inline(&disk, config);
    for n in [0, 1, 2, 3, 1, 2, 0] {
        let mut session = Session::begin(&store, id(n));
        session.put(&store, format!("[\"one of {n}\"]").as_bytes());
        session.put(&store, format!("[\"two of {n}\"]").as_bytes());
        if n == 2 {
            session.snapshot(&store, &[b"part one", b"part two"]).unwrap();
        }
        session.end(&store);
    }
    let content = content(&store);
    if close {
        store.close().unwrap();
    }
    drop(store);
    (disk.kill(), content)
}

/// Opens a damaged disk and checks what is read against what was written.
fn check(disk: &SimDisk, config: &StoreConfig, before: &Content, context: &str) -> bool {
    let store = match try_inline(disk, config) {
        Ok(store) => store,
        Err(fault) => {
            let codes = [Code::JournalCorrupt, Code::JournalVersion];
            assert!(codes.contains(&fault.code), "{context}: {fault}");
            return true;
        }
    };
    let after = content(&store);
    let report = store.recovery();
    let lost = before.iter().any(|(session, was)| after.get(session) != Some(was));
    for (session, now) in &after {
        assert!(before[session].starts_with(now), "{context}: {now:?}");
    }
    let damaged: Vec<_> = store.heads().into_iter().filter(|head| head.quarantined).collect();
    assert!(damaged.len() <= 1, "{context}: {damaged:?}");
    let said = report.cut_bytes > 0 || report.read_only.is_some() || !damaged.is_empty();
    assert!(said || !lost, "{context}: lost without a word");
    if report.read_only.is_none() {
        assert!(damaged.iter().all(|head| head.session != SessionId::SUPERVISOR), "{context}");
        for head in store.heads().into_iter().filter(|head| !head.quarantined) {
            Session::begin(&store, head.session).put(&store, b"[]");
        }
    } else {
        let fault = store.fault().unwrap();
        assert_eq!(fault.code, Code::JournalCorrupt, "{context}");
    }
    lost || said
}

#[test]
fn f35_no_flipped_bit_changes_what_is_read() {
    for close in [true, false] {
        let (disk, before) = small_log(&small(), close);
        let image = disk.image();
        let mut n_noticed = 0;
        for (path, bytes) in disk.files() {
            if path == "lock" {
                continue;
            }
            for (offset, byte) in bytes.iter().enumerate() {
                if *byte == 0 && offset % 512 != 5 {
                    continue;
                }
                let disk = SimDisk::from_image(&image);
                disk.flip_bit(&path, offset, (offset * 5 % 8) as u8);
                let context = format!("closed {close}, {path}, byte {offset}");
                n_noticed += usize::from(check(&disk, &small(), &before, &context));
            }
        }
        assert!(n_noticed > 400, "{n_noticed} flips were noticed");
    }
}

#[test]
fn f38_no_truncation_changes_what_is_read() {
    let (disk, before) = small_log(&small(), false);
    let image = disk.image();
    for (path, bytes) in disk.files() {
        for len in (0..bytes.len()).step_by(97) {
            let disk = SimDisk::from_image(&image);
            disk.set_len(&path, len);
            check(&disk, &small(), &before, &format!("{path} cut to {len}"));
        }
    }
}

#[test]
fn f38_a_last_segment_that_lost_its_length_is_not_taken_for_an_unused_one() {
    for n_frames in 1..8 {
        let disk = SimDisk::new();
        let store = inline(&disk, &small());
        let mut session = Session::begin(&store, id(1));
        for n in 0..n_frames {
            session.put(&store, format!("[{n}]").as_bytes());
        }
        drop(store);
        let disk = disk.kill();
        let (path, _) = find(&disk, &format!("[{}]", n_frames - 1));
        disk.set_len(&path, 0);
        let store = inline(&disk, &small());
        let fault = store.fault().map(|fault| fault.code);
        assert_eq!(fault, Some(Code::JournalCorrupt), "{n_frames} frames: lost without a word");
    }
}

/// Where a text lies on the disk.
fn find(disk: &SimDisk, text: &str) -> (String, usize) {
    let files = disk.files();
    let found = files.iter().find_map(|(path, bytes)| {
        let at = bytes.windows(text.len()).position(|window| window == text.as_bytes())?;
        Some((path.clone(), at))
    });
    found.unwrap()
}

#[test]
fn f59_damage_in_one_sessions_frame_leaves_all_others_running() {
    let (disk, before) = small_log(&plain(), false);
    let (path, at) = find(&disk, "two of 3");
    disk.flip_bit(&path, at, 0);
    let store = inline(&disk, &plain());
    assert_eq!(store.recovery().quarantined, [id(3)]);
    assert_eq!(
        store.begin(id(3), Session::begin(&store, id(9)).told).unwrap_err().code,
        Code::JournalCorrupt
    );
    assert_eq!(store.replay(id(3)).unwrap_err().code, Code::JournalCorrupt);
    let mut expected = before;
    expected.remove(&id(3));
    assert_eq!(content(&store), expected);
    store.close().unwrap();
    drop(store);
    let store = inline(&disk, &plain());
    assert_eq!(store.recovery().quarantined, [id(3)], "it stays quarantined");
}

#[test]
fn m52_damage_before_the_snapshot_harms_nobody() {
    let (disk, before) = small_log(&plain(), false);
    let (path, at) = find(&disk, "one of 2");
    disk.flip_bit(&path, at, 0);
    let store = inline(&disk, &plain());
    assert_eq!(store.recovery().quarantined, []);
    assert_eq!(content(&store), before);
}

#[test]
fn the_supervisors_damage_makes_the_store_read_only() {
    let (disk, _) = small_log(&plain(), false);
    let (path, at) = find(&disk, "one of 0");
    disk.flip_bit(&path, at, 0);
    let store = inline(&disk, &plain());
    assert_eq!(store.fault().unwrap().code, Code::JournalCorrupt);
    let told = Session::begin(&store, id(1));
    match store.permit(told.load, 3, Purpose::Settle) {
        Err(NoPermit::Fault(fault)) => assert_eq!(fault.code, Code::JournalCorrupt),
        _ => panic!("a read-only store gave a permit"),
    }
    assert!(!store.replay(id(1)).unwrap().frames.is_empty());
}

#[test]
fn f37_a_torn_tail_is_cut_before_anything_is_written_after_it() {
    let (disk, before) = small_log(&plain(), false);
    let store = inline(&disk, &plain());
    let mut session = Session::begin(&store, id(1));
    session.put(&store, b"[\"the last of all\"]");
    drop(store);
    let disk = disk.kill();
    // The flushed group was proved by an empty one; without that it is the tail.
    let (path, at) = find(&disk, "the last of all");
    let empty = at / 4_096 * 4_096 + 4_096;
    let files = disk.files();
    if files[&path][empty..].iter().any(|byte| *byte != 0) {
        let mut bytes = files[&path].clone();
        bytes[empty..].fill(0);
        disk.put(&path, &bytes);
    }
    disk.flip_bit(&path, at, 0);
    let store = inline(&disk, &plain());
    assert!(store.recovery().cut_bytes > 0);
    assert_eq!(disk.list("cut").unwrap().len(), 1, "what was cut was kept aside");
    assert_eq!(content(&store), before);
    Session::begin(&store, id(1)).put(&store, b"[\"new\"]");
    drop(store);
    let store = inline(&disk.kill(), &plain());
    assert_eq!(store.recovery().cut_bytes, 0);
    assert_eq!(content(&store)[&id(1)].last().unwrap(), "[\"new\"]");
}

#[test]
fn f36_a_journal_without_its_description_is_refused_and_left_alone() {
    let (disk, _) = small_log(&small(), true);
    disk.remove("store.meta").unwrap();
    let before = disk.files();
    assert_eq!(try_inline(&disk, &small()).err().unwrap().code, Code::JournalCorrupt);
    let mut after = disk.files();
    after.insert("lock".to_owned(), before["lock"].clone());
    assert_eq!(after, before);
}

#[test]
fn f44_a_failed_flush_poisons_the_store_and_never_settles() {
    for n in 0..20 {
        let disk = SimDisk::new();
        let store = inline(&disk, &small());
        let mut session = Session::begin(&store, id(1));
        session.put(&store, b"[1]");
        disk.fail_kind(CallKind::Sync, disk.calls_of(CallKind::Sync) + 1 + n, DiskFault::Io);
        let mut k = 1;
        while session.told.now().failed.is_none() {
            k += 1;
            let now = (Purpose::Settle, Urgency::Now);
            match session.try_append(&store, format!("[{k}]").as_bytes(), now) {
                Ok(_) => {}
                Err(NoPermit::Fault(_)) => break,
                Err(NoPermit::Wait) => panic!("nothing is under way"),
            }
            if k == 40 {
                break; // It was the flush of a segment to come, or of the heads.
            }
        }
        let settled = session.told.now().settled[&session.load.number];
        let poisoned = store.fault();
        if let Some(fault) = &poisoned {
            assert_eq!(fault.code, Code::NotDurable);
            assert!(store.permit(session.load, 1, Purpose::Settle).is_err());
        }
        assert_eq!(store.replay(id(1)).unwrap().frames.len() as u64, settled, "reads go on");
        drop(store);
        let store = inline(&disk.crash_seeded(n), &small());
        assert!(store.replay(id(1)).unwrap().frames.len() as u64 >= settled);
        assert_eq!(store.fault(), None, "opening again recovers");
    }
}

#[test]
fn f43_a_failed_write_leaves_nothing_behind_and_service_goes_on() {
    for fault in [DiskFault::NoSpace, DiskFault::Io, DiskFault::ShortWrite, DiskFault::ReadOnly] {
        for n in 0..12 {
            let context = format!("{fault:?} at write {n}");
            let disk = SimDisk::new();
            let store = inline(&disk, &small());
            let mut session = Session::begin(&store, id(1));
            session.put(&store, b"[1]");
            disk.fail_kind(CallKind::Write, disk.calls_of(CallKind::Write) + 1 + n, fault);
            let now = (Purpose::Settle, Urgency::Now);
            let mut count = 1;
            for k in 0..8_u64 {
                store.tick(Timestamp(1_000 * (k + 1)));
                let payload = format!("[{}]", count + 1);
                match session.try_append(&store, payload.as_bytes(), now) {
                    Ok(ticket) if session.told.now().failed.is_none() => {
                        assert_eq!(session.told.now().settled[&session.load.number], ticket);
                        count += 1;
                    }
                    Ok(_) => {
                        session.end(&store);
                        session = Session::begin(&store, id(1));
                    }
                    Err(NoPermit::Fault(_)) => {}
                    Err(NoPermit::Wait) => panic!("{context}: nothing is under way"),
                }
                assert_eq!(store.replay(id(1)).unwrap().frames.len(), count, "{context}");
            }
            assert!(count >= 5, "{context}: {count}");
            assert_eq!(store.fault(), None, "{context}");
            let report = LogReader::open(Arc::new(disk.clone())).unwrap().verify().unwrap();
            assert_eq!(report.damage, [], "{context}");
            drop(store);
            let store = inline(&disk.kill(), &small());
            let expected: Vec<_> = (1..=count).map(|n| format!("[{n}]")).collect();
            assert_eq!(payloads(&store.replay(id(1)).unwrap()), expected, "{context}");
        }
    }
}

#[test]
fn f43_what_a_write_left_before_the_disk_turned_read_only_is_wiped_before_the_next() {
    let disk = SimDisk::new();
    let config = StoreConfig { segment_bytes: 65_536, frame_max: 50_000, ..small() };
    let store = inline(&disk, &config);
    let mut session = Session::begin(&store, id(1));
    session.put(&store, b"[1]");
    let large = format!("[\"{}\"]", "x".repeat(48_000));
    let n = disk.calls_of(CallKind::Write);
    disk.fail_kind(CallKind::Write, n + 1, DiskFault::ShortWrite);
    for more in 2..10 {
        disk.fail_kind(CallKind::Write, n + more, DiskFault::ReadOnly);
    }
    let now = (Purpose::Settle, Urgency::Now);
    session.try_append(&store, large.as_bytes(), now).unwrap();
    let refused = session.told.now().failed.unwrap().1.code;
    assert_eq!(refused, Code::NotDurable, "a part of it is on the disk");
    session.end(&store);
    let mut session = Session::begin(&store, id(1));
    let mut k = 0;
    while session.try_append(&store, b"[2]", now).is_err() {
        k += 1;
        store.tick(Timestamp(1_000 * k));
        assert!(k < 20, "service is back when the disk is");
    }
    assert_eq!(session.told.now().failed, None);
    session.put(&store, large.as_bytes());
    store.close().unwrap();
    let report = LogReader::open(Arc::new(disk.clone())).unwrap().verify().unwrap();
    assert_eq!(report.damage, []);
    let store = inline(&disk.kill(), &config);
    assert_eq!(store.fault(), None);
    assert_eq!(payloads(&store.replay(id(1)).unwrap()), ["[1]", "[2]", &large]);
}

#[test]
fn a_read_only_disk_refuses_and_serves_again_when_it_is_writable() {
    let disk = SimDisk::new();
    let store = inline(&disk, &small());
    let mut session = Session::begin(&store, id(1));
    session.put(&store, b"[1]");
    disk.set_read_only(true);
    let now = (Purpose::Settle, Urgency::Now);
    session.try_append(&store, b"[2]", now).unwrap();
    assert_eq!(session.told.now().failed.unwrap().1.code, Code::StoreReadOnly);
    session.end(&store);
    let mut session = Session::begin(&store, id(1));
    match session.try_append(&store, b"[2]", (Purpose::Send, Urgency::Now)) {
        Err(NoPermit::Fault(fault)) => assert_eq!(fault.code, Code::StoreReadOnly),
        other => panic!("a read-only disk gave a permit: {other:?} {:?}", store.fault()),
    }
    disk.set_read_only(false);
    store.tick(Timestamp(1_000));
    session.put(&store, b"[2]");
    assert_eq!(payloads(&store.replay(id(1)).unwrap()), ["[1]", "[2]"]);
    store.close().unwrap();
}

#[test]
fn f35_a_session_whose_damaged_segment_was_restored_is_whole_again() {
    let config = plain();
    let (disk, before) = small_log(&config, true);
    let path = "log/0000000000000000";
    let sound = disk.files().remove(path).unwrap();
    let text = b"one of 3";
    let at = sound.windows(text.len()).position(|bytes| bytes == text).unwrap();
    disk.flip_bit(path, at, 0);
    disk.remove("heads").unwrap();
    let store = inline(&disk, &config);
    assert_eq!(store.recovery().quarantined, [id(3)]);
    store.close().unwrap();
    drop(store);
    // Only the block that was damaged comes from the copy: the log has gone on since.
    let mut segment = disk.files().remove(path).unwrap();
    let block = at / 4_096 * 4_096..(at / 4_096 + 1) * 4_096;
    segment[block.clone()].copy_from_slice(&sound[block]);
    disk.put(path, &segment);
    let store = inline(&disk, &config);
    assert_eq!(store.recovery().quarantined, []);
    assert_eq!(content(&store), before);
}
