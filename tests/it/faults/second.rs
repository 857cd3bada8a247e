//! A second process on a directory that is held, by whatever path it comes.
//!
//! **Invariant**: the second changes no byte.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::gate;
use super::rounds::{CLEANED, Replay};
use crate::cli::program::{LineCounter, Running, callboard, finished};

#[test]
fn f34_a_second_process_is_told_who_holds_the_directory_also_through_a_symbolic_link() {
    if !gate::is_wanted("a second process on the same directory") {
        return;
    }
    let replay = Replay::new(20_000, &CLEANED);
    let mut written = LineCounter::new(&replay.receipts);
    let mut holder = Running::start(callboard(replay.args()));
    assert!(holder.wait_until(|| written.count() > 500), "it was over before");
    holder.signal("STOP");
    let pid = holder.0.id();
    assert!(holder.wait_until(|| is_stopped(pid)), "it was over before");
    let before = content(&replay.data);

    let home = tempfile::tempdir().expect("a directory");
    let (to_data, to_parent) = (home.path().join("data"), home.path().join("parent"));
    symlink(&replay.data, &to_data).expect("a link can be made");
    symlink(replay.data.parent().unwrap(), &to_parent).expect("a link can be made");
    let roundabout = replay.data.join("log/..");
    let pid = pid.to_string();
    for path in [replay.data.clone(), to_data, to_parent.join("data"), roundabout] {
        let path = path.to_str().expect("a path is text");
        let mut same = replay.args();
        let data = replay.data.to_str().expect("a path is text");
        same.iter_mut().filter(|word| *word == data).for_each(|word| *word = path.to_owned());
        let load = ["load", "--sessions", "2", "--messages", "1", "--data", path];
        let scenario = ["run", "scenarios/newsroom.toml", "--data", path];
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        for words in [same, owned(&load), owned(&scenario)] {
            let second = finished(&words);
            assert_eq!(second.code, Some(75), "{words:?}: {second:?}");
            assert!(second.err.contains("STORE_LOCKED"), "{words:?}: {second:?}");
            assert!(second.err.contains(&pid), "{pid} is not named: {words:?}: {second:?}");
        }
        let verify = finished(["journal", "verify", path]);
        assert_eq!(verify.code, Some(0), "{path}: {verify:?}");
    }
    let after = content(&replay.data);
    let changed: Vec<&PathBuf> =
        after.keys().chain(before.keys()).filter(|at| after.get(*at) != before.get(*at)).collect();
    assert!(changed.is_empty(), "a second process changed {changed:?}");

    holder.signal("CONT");
    replay.assert_whole(holder.finish(), "the holder");
}

#[test]
fn f33_a_lock_file_that_names_a_living_stranger_keeps_nobody_out() {
    if !gate::is_wanted("a lock file that names a living stranger") {
        return;
    }
    let replay = Replay::new(200, &CLEANED);
    let me = std::process::id().to_string();
    for (at, left) in
        ["1", &me, "", "{\"pid\":", "4294967295 of another machine"].iter().enumerate()
    {
        fs::create_dir_all(&replay.data).expect("a directory");
        fs::write(replay.data.join("lock"), left).expect("it can be written");
        replay.assert_ends_whole(&format!("lock file {at}: `{left}`"));
    }
}

/// Whether every thread of a process stands still: a signal reaches each after the call it is in.
fn is_stopped(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads are listed");
    threads.flatten().all(|thread| {
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("State:") && line.contains("stopped"))
    })
}

/// Every file below a directory, and what is in it.
fn content(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("it can be listed") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(content(&path));
        } else {
            let bytes = fs::read(&path).expect("it can be read");
            found.insert(path, bytes);
        }
    }
    found
}
