//! The bytes of version 1: what is written today is what was written then, and what was written
//! then is read today.

use std::path::{Path, PathBuf};

use callboard::persist::SimDisk;
use callboard::persist::store::{Purpose, Store, Urgency};
use callboard::protocol::SessionId;

use crate::log_world::{Session, id, inline, payloads, small};

const FILES: [&str; 7] = [
    "store.meta",
    "freed",
    "heads",
    "log/0000000000000000",
    "log/0000000000000001",
    "log/0000000000000002",
    "log/0000000000000003",
];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/journal-v1")
}

/// The data directory of the golden files.
fn made() -> SimDisk {
    let disk = SimDisk::new();
    let store = inline(&disk, &small());
    let mut supervisor = Session::begin(&store, SessionId::SUPERVISOR);
    let mut one = Session::begin(&store, id(1));
    supervisor.put(&store, br#"[{"created":"one"}]"#);
    one.try_append(&store, b"[1]", (Purpose::Settle, Urgency::Lazy)).unwrap();
    one.put(&store, b"[2]");
    one.snapshot(&store, &[b"{\"state\":", b"2}"]).unwrap();
    one.put(&store, b"[3]");
    store.close().unwrap();
    disk
}

fn name_of(path: &str) -> String {
    path.replace('/', "-")
}

#[test]
fn m51_what_is_written_is_version_1_byte_by_byte() {
    let files = made().files();
    if std::env::var_os("CALLBOARD_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all(golden()).unwrap();
        for path in FILES {
            std::fs::write(golden().join(name_of(path)), &files[path]).unwrap();
        }
    }
    for path in FILES {
        let then = std::fs::read(golden().join(name_of(path))).unwrap();
        assert!(files[path] == then, "{path} has changed: that is a new version of the journal");
    }
}

#[test]
fn m51_version_1_is_read() {
    let disk = SimDisk::new();
    callboard::persist::Disk::make_dir(&disk, "").unwrap();
    callboard::persist::Disk::make_dir(&disk, "log").unwrap();
    for path in FILES {
        disk.put(path, &std::fs::read(golden().join(name_of(path))).unwrap());
    }
    let store = inline(&disk, &small());
    assert_eq!(store.recovery().read_only, None);
    let supervisor = store.replay(SessionId::SUPERVISOR).unwrap();
    assert_eq!(payloads(&supervisor), [r#"[{"created":"one"}]"#]);
    assert_eq!(payloads(&store.replay(id(1)).unwrap()), ["{\"state\":", "2}", "[3]"]);
    assert_eq!(store.recovery().run, 2);
}

#[test]
fn m51_an_unknown_version_is_refused_wherever_it_stands() {
    for path in ["store.meta", "freed", "heads"] {
        let disk = made();
        let mut bytes = disk.files()[path].clone();
        bytes[8] = 2;
        let end = bytes.len() - 4;
        let crc = crc32c::crc32c(&bytes[..end]).to_le_bytes();
        bytes[end..].copy_from_slice(&crc);
        disk.put(path, &bytes);
        let fault = crate::log_world::try_inline(&disk, &small()).err().unwrap();
        assert_eq!(fault.code, callboard::Code::JournalVersion, "{path}");
    }
}
