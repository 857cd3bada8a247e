//! Reading a data directory that somebody else holds.

use std::sync::Arc;

use callboard::config::{History, StoreConfig};
use callboard::error::Code;
use callboard::persist::log::LogReader;
use callboard::persist::store::{Purpose, Store, Urgency};
use callboard::persist::{Disk, SimDisk};

use crate::log_world::{Session, id, inline, small};

fn reader(disk: &SimDisk) -> LogReader {
    LogReader::open(Arc::new(disk.clone())).unwrap()
}

#[test]
fn m63_a_held_store_is_read_and_nothing_is_changed() {
    let disk = SimDisk::new();
    let store = inline(&disk, &small());
    let mut session = Session::begin(&store, id(1));
    for n in 0..60 {
        session.put(&store, format!("[{n}]").as_bytes());
        if n % 20 == 19 {
            session.snapshot(&store, &[b"state"]).unwrap();
        }
    }
    let before = disk.files();
    let reader = reader(&disk);
    let mut texts = Vec::new();
    let mut n_unproved = 0;
    reader
        .frames(&mut |frame| {
            n_unproved += usize::from(!frame.proved);
            texts.push(String::from_utf8(frame.payload).unwrap());
        })
        .unwrap();
    texts.retain(|text| text != "state");
    let expected: Vec<_> = (0..60).map(|n| format!("[{n}]")).collect();
    assert_eq!(texts, expected, "history and log, in log order");
    assert_eq!(n_unproved, 0, "an empty group proves the last");
    let report = reader.verify().unwrap();
    assert_eq!((report.frames, report.sessions, report.damage.len()), (63, 1, 0));
    assert_eq!(disk.files(), before);
    session.append(&store, b"[60]");
}

#[test]
fn m63_damage_is_named_and_left_alone() {
    let disk = SimDisk::new();
    let store = inline(&disk, &small());
    let mut session = Session::begin(&store, id(7));
    session.put(&store, b"[\"first\"]");
    session.try_append(&store, b"[\"second\"]", (Purpose::Settle, Urgency::Now)).unwrap();
    store.close().unwrap();
    drop(store);
    let (path, bytes) =
        disk.files().into_iter().find(|(path, _)| path.starts_with("log/")).unwrap();
    let at = bytes.windows(5).position(|window| window == b"first").unwrap();
    disk.flip_bit(&path, at, 2);
    let before = disk.files();
    let report = reader(&disk).verify().unwrap();
    assert_eq!(report.damage.len(), 1);
    assert_eq!(report.damage[0].sessions, [id(7)]);
    assert_eq!(report.frames, 1);
    assert_eq!(disk.files(), before);
}

#[test]
fn a_directory_without_a_journal_is_said_to_have_none() {
    let disk = SimDisk::new();
    disk.make_dir("").unwrap();
    let fault = LogReader::open(Arc::new(disk)).err().unwrap();
    assert_eq!(fault.code, Code::NotFound);
}

#[test]
fn a_reader_that_is_kept_open_sees_what_was_written_since() {
    let disk = SimDisk::new();
    let store = inline(&disk, &small());
    let mut session = Session::begin(&store, id(1));
    session.put(&store, b"[0]");
    let reader = reader(&disk);
    for n in 1..60 {
        session.put(&store, format!("[{n}]").as_bytes());
    }
    store.close().unwrap();
    let report = reader.verify().unwrap();
    assert_eq!(report.damage, []);
    assert_eq!((report.frames, report.unproved_bytes), (60, 0));
}

#[test]
fn a_reader_keeps_its_way_while_a_quick_cleaner_removes_what_it_reads() {
    let disk = SimDisk::new();
    let store = inline(&disk, &StoreConfig { history: History::Drop, ..small() });
    let mut session = Session::begin(&store, id(1));
    for n in 0..20 {
        session.put(&store, format!("[{n}]").as_bytes());
    }
    let reader = reader(&disk);
    let (mut last, mut n_given) = (0, 0);
    reader
        .frames(&mut |frame| {
            assert!(frame.position > last, "each once, in log order");
            (last, n_given) = (frame.position, n_given + 1);
            // From its first frame to the end of what it found, the log runs ahead of the reader.
            for n in 0..if n_given < 40 { 24 } else { 0 } {
                session.put(&store, format!("[{n}]").as_bytes());
                session.snapshot(&store, &[b"state"]).unwrap();
            }
        })
        .unwrap();
    assert!(n_given >= 20, "{n_given} frames were given");
}

#[test]
fn a_last_segment_that_lost_its_length_is_named() {
    let disk = SimDisk::new();
    let store = inline(&disk, &small());
    Session::begin(&store, id(1)).put(&store, b"[1]");
    store.close().unwrap();
    drop(store);
    let files = disk.files();
    let path = files.keys().rfind(|path| path.starts_with("log/")).unwrap();
    disk.set_len(path, 4_096);
    let report = reader(&disk).verify().unwrap();
    assert_eq!(report.damage.len(), 1, "{report:?}");
    assert!(report.damage[0].what.contains("shorter"), "{report:?}");
}
