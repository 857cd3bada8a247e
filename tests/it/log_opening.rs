//! What an opening reads, and what a page of history may be asked for.

use callboard::config::{History, StoreConfig};
use callboard::error::Code;
use callboard::persist::store::Store;
use callboard::persist::{Disk, RealDisk, SimDisk};

use crate::log_world::{Session, id, inline, small, threaded};

#[test]
fn an_opening_with_good_heads_reads_no_frame_of_a_session_without_a_snapshot() {
    let disk = SimDisk::new();
    let config = StoreConfig { history: History::Drop, ..small() };
    let store = inline(&disk, &config);
    let mut first = Session::begin(&store, id(0));
    let mut n = 0;
    while disk.list("log").unwrap().contains(&format!("{:016x}", 0)) {
        first.put(&store, b"[0]");
        first.snapshot(&store, &[b"state"]).unwrap();
        n += 1;
        assert!(n < 200, "the cleaner freed nothing");
    }
    for n in 1..=120 {
        Session::begin(&store, id(n)).put(&store, b"[1]");
    }
    store.close().unwrap();
    drop(store);
    let disk = disk.kill();
    let store = inline(&disk, &config);
    let report = store.recovery();
    assert_eq!((report.quarantined.len(), report.groups), (0, 0));
    assert!(report.bytes_read < 64 << 10, "{} bytes were read", report.bytes_read);
    assert_eq!(store.replay(id(120)).unwrap().frames.len(), 1);
    drop(store);
    disk.remove("heads").unwrap();
    let store = inline(&disk, &config);
    assert_eq!(store.recovery().quarantined, [], "each of them begins where the log shows it");
}

#[test]
fn opening_a_tiny_journal_reads_little_of_its_prepared_segments() {
    let dir = tempfile::tempdir().unwrap();
    let disk = RealDisk::new(dir.path().join("data"));
    let config = StoreConfig { segment_bytes: 2 << 20, frame_max: 1 << 20, ..small() };
    for n in 0..2 {
        let store = threaded(&disk, &config);
        if n > 0 {
            let bytes = store.recovery().bytes_read;
            assert!(bytes < 1 << 20, "{bytes} bytes were read");
        }
        let mut session = Session::begin(&store, id(1));
        session.put(&store, b"[1]");
        session.end(&store);
        store.close().unwrap();
    }
}

#[test]
fn a_history_cursor_that_names_no_frame_is_the_callers_mistake() {
    let disk = SimDisk::new();
    let store = inline(&disk, &small());
    let mut session = Session::begin(&store, id(1));
    for n in 0..4 {
        session.put(&store, format!("[{n}]").as_bytes());
    }
    let position = store.heads()[0].position;
    for wrong in [0, 1, position - 3, position + 1, position + 4_096] {
        let fault = store.history(id(1), Some(wrong), 5).unwrap_err();
        assert_eq!(fault.code, Code::InvalidArgument, "{wrong}");
    }
    assert_eq!(store.history(id(1), Some(position), 5).unwrap().frames.len(), 3);
    assert!(store.history(id(1), Some(u64::MAX), 5).unwrap().frames.is_empty());
}
