//! The simulated disk keeps what it promises, and loses what it may.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use super::{CallKind, DiskFault, SimDisk, Unflushed};
use crate::persist::disk::Disk;

fn disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.make_dir("segments").unwrap();
    disk
}

fn read(disk: &SimDisk, path: &str) -> Option<Vec<u8>> {
    disk.files().remove(path)
}

fn write(disk: &SimDisk, path: &str, bytes: &[u8]) {
    let file = disk.open(path, false).or_else(|_| disk.create(path)).unwrap();
    assert_eq!(file.write_at(bytes, 0).unwrap(), bytes.len());
}

fn flush(disk: &SimDisk, path: &str) {
    disk.open(path, false).unwrap().sync().unwrap();
    disk.sync_dir("").unwrap();
}

#[test]
fn a_flushed_file_survives_every_crash_and_an_unflushed_one_none_that_keeps_nothing() {
    let disk = disk();
    write(&disk, "a", b"one");
    flush(&disk, "a");
    write(&disk, "a", b"two");
    write(&disk, "b", b"new");
    let lost = SimDisk::from_image(&disk.image()).crash(|_| 0);
    assert_eq!((read(&lost, "a"), read(&lost, "b")), (Some(b"one".to_vec()), None));
    let kept = disk.crash(|unflushed| unflushed.versions());
    assert_eq!(read(&kept, "a").unwrap(), b"two");
    assert_eq!(read(&kept, "b").unwrap(), b"new");
}

#[test]
fn a_torn_write_keeps_any_subset_of_sectors_and_versions() {
    let disk = disk();
    write(&disk, "a", &[0; 1024]);
    flush(&disk, "a");
    write(&disk, "a", &[1; 1024]);
    write(&disk, "a", &[2; 1024]);
    assert_eq!(disk.unflushed(), [2, 2]);
    let mut seen = BTreeSet::new();
    for (first, second) in (0..3).flat_map(|first| (0..3).map(move |second| (first, second))) {
        let copy = SimDisk::from_image(&disk.image()).crash(|unflushed| match unflushed {
            Unflushed::Sector { number: 0, .. } => first,
            _ => second,
        });
        let bytes = read(&copy, "a").unwrap();
        assert_eq!((usize::from(bytes[511]), usize::from(bytes[512])), (first, second));
        seen.insert(bytes);
    }
    assert_eq!(seen.len(), 9);
}

#[test]
fn a_length_that_shrank_and_grew_again_shows_zeros_unless_the_crash_takes_it_back() {
    let disk = disk();
    write(&disk, "a", &[1; 1024]);
    flush(&disk, "a");
    let file = disk.open("a", false).unwrap();
    file.truncate(100).unwrap();
    file.truncate(1024).unwrap();
    assert_eq!(read(&disk, "a").unwrap()[99..102], [1, 0, 0]);
    let back = SimDisk::from_image(&disk.image()).crash(|_| 0);
    assert_eq!(read(&back, "a").unwrap(), [1; 1024]);
    file.sync().unwrap();
    let after = disk.crash(|_| 0);
    assert_eq!(read(&after, "a").unwrap()[99..102], [1, 0, 0]);
}

#[test]
fn a_rename_is_old_or_new_or_both_and_never_loses_its_file() {
    let mut outcomes = BTreeSet::new();
    for bits in 0..32_usize {
        let disk = disk();
        write(&disk, "heads", b"old");
        write(&disk, "segments/1", b"moved");
        for path in ["heads", "segments/1"] {
            disk.open(path, false).unwrap().sync().unwrap();
        }
        disk.sync_dir("").unwrap();
        disk.sync_dir("segments").unwrap();
        write(&disk, "tmp", b"new");
        disk.open("tmp", false).unwrap().sync().unwrap();
        disk.rename("tmp", "heads").unwrap();
        disk.rename("segments/1", "1").unwrap();
        let mut asked = 0;
        let left = disk.crash(|_| {
            asked += 1;
            bits >> (asked - 1) & 1
        });
        assert_eq!(asked, 5);
        let heads = read(&left, "heads").unwrap();
        assert!(heads == b"old" || heads == b"new");
        assert!(read(&left, "segments/1").or_else(|| read(&left, "1")).unwrap() == b"moved");
        outcomes.insert(left.files());
    }
    assert_eq!(outcomes.len(), 12, "four states of one and three of the other");
}

#[test]
fn a_removed_name_comes_back_until_its_directory_is_flushed() {
    let disk = disk();
    write(&disk, "a", b"a");
    flush(&disk, "a");
    disk.remove("a").unwrap();
    let back = SimDisk::from_image(&disk.image()).crash(|_| 0);
    assert_eq!(read(&back, "a").unwrap(), b"a");
    disk.sync_dir("").unwrap();
    assert_eq!(disk.used_bytes(), 0);
    let gone = disk.crash(|_| 0);
    assert_eq!(read(&gone, "a"), None);
}

#[test]
fn a_failed_flush_is_forgotten_by_later_ones() {
    let disk = disk();
    write(&disk, "a", b"one");
    flush(&disk, "a");
    write(&disk, "a", b"two");
    disk.fail_kind(CallKind::Sync, 2, DiskFault::Io);
    let file = disk.open("a", false).unwrap();
    assert!(file.sync().is_err());
    file.sync().unwrap();
    assert_eq!(read(&disk, "a").unwrap(), b"two");
    let left = SimDisk::from_image(&disk.image()).crash(|_| 0);
    assert_eq!(read(&left, "a").unwrap(), b"one", "a retried flush made up for a failed one");
    write(&disk, "a", b"two");
    file.sync().unwrap();
    let left = disk.crash(|_| 0);
    assert_eq!(read(&left, "a").unwrap(), b"two");
}

#[test]
fn a_lying_flush_flushes_nothing() {
    let disk = disk();
    disk.set_lying_flush(true);
    write(&disk, "a", b"one");
    flush(&disk, "a");
    let left = disk.crash(|_| 0);
    assert_eq!(read(&left, "a"), None);
}

#[test]
fn calls_fail_where_they_are_told_to_and_pass_everywhere_else() {
    let disk = disk();
    let file = disk.create("a").unwrap();
    assert_eq!((disk.calls(), disk.calls_of(CallKind::Create)), (2, 1));
    for (n, fault, code) in [
        (3, DiskFault::Io, 5),
        (4, DiskFault::NoSpace, 28),
        (5, DiskFault::ReadOnly, 30),
        (6, DiskFault::TooManyFiles, 24),
    ] {
        disk.fail_call(n, fault);
        assert_eq!(file.write_at(b"four", 0).unwrap_err().raw_os_error(), Some(code));
    }
    disk.fail_call(7, DiskFault::ShortWrite);
    assert_eq!(file.write_at(b"four", 0).unwrap(), 2);
    assert_eq!(file.write_at(b"ur", 2).unwrap(), 2);
    assert_eq!(read(&disk, "a").unwrap(), b"four");
    disk.stop_at(Some(10));
    file.sync().unwrap();
    assert!(file.sync().is_err() && file.len().is_err() && disk.list("").is_err());
    assert_eq!(disk.stopped().unwrap(), "call 10: Sync a ");
    assert!(disk.kill().list("").is_ok());
}

#[test]
fn a_full_disk_stores_what_fits_and_room_can_be_given_back() {
    let disk = disk();
    disk.set_capacity(Some(6));
    let file = disk.create("a").unwrap();
    assert_eq!(file.write_at(b"1234", 0).unwrap(), 4);
    assert_eq!(file.write_at(b"5678", 4).unwrap(), 2);
    assert_eq!(file.write_at(b"78", 6).unwrap_err().kind(), ErrorKind::StorageFull);
    assert!(file.truncate(7).is_err());
    assert_eq!(file.write_at(b"abcdef", 0).unwrap(), 6, "no room is needed to write over");
    disk.set_capacity(Some(8));
    assert_eq!(file.write_at(b"78", 6).unwrap(), 2);
}

#[test]
fn a_read_only_disk_reads_and_changes_nothing() {
    let disk = disk();
    write(&disk, "a", b"one");
    let file = disk.open("a", false).unwrap();
    disk.set_read_only(true);
    assert!(file.write_at(b"x", 0).is_err() && file.truncate(0).is_err());
    assert!(disk.create("b").is_err() && disk.remove("a").is_err());
    assert!(disk.rename("a", "b").is_err() && disk.lock("lock").is_err());
    assert!(disk.open("a", false).is_err() && disk.make_dir("x").is_err());
    assert_eq!(disk.open("a", true).unwrap().read_at(&mut [0; 8], 1).unwrap(), 2);
    disk.make_dir("segments").unwrap();
    disk.set_read_only(false);
    assert_eq!(file.write_at(b"x", 0).unwrap(), 1);
}

#[test]
fn the_lock_ends_with_its_file_a_kill_or_a_crash_and_the_dead_can_do_nothing() {
    let disk = disk();
    let held = disk.lock("lock").unwrap().unwrap();
    assert!(disk.lock("lock").unwrap().is_none());
    drop(held);
    let held = disk.lock("lock").unwrap().unwrap();
    let next = disk.kill();
    assert!(held.write_at(b"late", 0).is_err() && disk.list("").is_err());
    let again = next.lock("lock").unwrap().unwrap();
    drop(held);
    assert!(next.lock("lock").unwrap().is_none(), "a dead process gave the lock away");
    let third = next.crash_seeded(1);
    assert!(again.len().is_err() && third.lock("lock").unwrap().is_some());
}

#[test]
fn the_same_seed_leaves_the_same_disk() {
    let outcome = |seed| {
        let disk = disk();
        for n in 0..8_u8 {
            write(&disk, &format!("segments/{}", n % 3), &[n; 3000]);
        }
        disk.crash_seeded(seed).files()
    };
    let mut outcomes = BTreeSet::new();
    for seed in 0..64 {
        assert_eq!(outcome(seed), outcome(seed), "seed {seed}");
        outcomes.insert(outcome(seed));
    }
    assert!(outcomes.len() > 30, "only {} outcomes", outcomes.len());
}

#[test]
fn damage_reaches_the_platter_and_counts_as_no_call() {
    let disk = disk();
    disk.put("segments/x", b"abc");
    disk.flip_bit("segments/x", 1, 0);
    disk.set_len("segments/x", 2);
    disk.flip_bit("segments/x", 9, 0);
    assert_eq!(disk.calls(), 1);
    let left = disk.crash(|_| 0);
    assert_eq!(read(&left, "segments/x").unwrap(), b"ac");
}
