//! One process per data directory, by the kernel's lock and nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;

use callboard::Code;
use callboard::config::History;
use callboard::persist::{LogStore, RealDisk, SimDisk};

use crate::archive::{SEATS, live, open, recover, small};
use crate::script::script;
use crate::truth::{Promise, Truth};
use crate::writer::Wanted;

#[test]
fn f34_a_second_opening_is_refused_and_changes_nothing() {
    let (disk, config) = (SimDisk::new(), small(History::Keep));
    let lived = live(&disk, &config, Truth::new(SEATS), &script(101, 20, SEATS));
    let before = disk.files();
    let fault = open(&disk, &config).map(drop).unwrap_err();
    assert_eq!(fault.code, Code::StoreLocked);
    let pid = std::process::id().to_string();
    assert!(fault.text.contains(&pid), "the loser is told who holds it: {}", fault.text);
    assert_eq!(disk.files(), before);
    let truth = lived.truth_unless_wrong().unwrap();
    recover(&disk.kill(), &config, &truth, Promise::Settled).unwrap();
}

#[test]
fn f34_closing_gives_the_lock_back() {
    let (disk, config) = (SimDisk::new(), small(History::Keep));
    let opened = open(&disk, &config).unwrap();
    opened.store.close().unwrap();
    drop(opened);
    open(&disk, &config).map(drop).unwrap();
}

#[test]
fn f33_a_lock_file_whatever_it_says_does_not_keep_a_store_from_opening() {
    let config = small(History::Keep);
    let disk = SimDisk::new();
    let lived = live(&disk, &config, Truth::new(SEATS), &script(102, 20, SEATS));
    let before = disk.files();
    let truth = lived.truth_unless_wrong().unwrap();
    let image = disk.kill().image();
    let held = open(&SimDisk::from_image(&image), &config).map(drop);
    held.unwrap();
    let lock = before.keys().find(|path| path.contains("lock")).expect("there is a lock file");
    for content in [&b""[..], b"1", b"4294967295\n", b"\xff\0{\"pid\":", &[b'9'; 5_000]] {
        let disk = SimDisk::from_image(&image);
        disk.put(lock, content);
        let shown = String::from_utf8_lossy(content);
        recover(&disk, &config, &truth, Promise::Settled)
            .unwrap_or_else(|text| panic!("lock file {shown:.20}: {text}"));
    }
}

#[test]
fn f34_a_second_opening_on_a_real_disk_is_refused_also_through_another_path() {
    let dir = tempfile::tempdir().unwrap();
    let (data, link) = (dir.path().join("data"), dir.path().join("link"));
    std::os::unix::fs::symlink(&data, &link).unwrap();
    let config = small(History::Keep);
    let open = |path: &std::path::Path| {
        let disk = Arc::new(RealDisk::new(path));
        LogStore::open_inline(disk, &config, Arc::new(Wanted::default()))
    };
    let held = open(&data).unwrap();
    let listed = || {
        let names = std::fs::read_dir(&data).unwrap();
        names.map(|entry| entry.unwrap().file_name()).collect::<BTreeSet<_>>()
    };
    let before = listed();
    for path in [data.clone(), link, data.join("../data")] {
        let refused = open(&path).map(drop).unwrap_err();
        assert_eq!(refused.code, Code::StoreLocked, "{refused}");
    }
    assert_eq!(listed(), before);
    drop(held);
    open(&data).map(drop).unwrap();
}
