//! Crashes and faults inside recovery: the next one finds what an undisturbed one finds.

use callboard::config::{History, StoreConfig};
use callboard::persist::SimDisk;
use callboard::persist::sim_disk::{DiskFault, DiskImage, Unflushed};

use crate::archive::{Recovered, open, quick_or_long, recover, recover_and_go_on, same, small};
use crate::chance::Chance;
use crate::script::Act;
use crate::truth::{Promise, survey};
use crate::workload::{CrashPoint, Workload};

/// Torn tails: crash points at which a group was written and not flushed, and some others.
fn crash_points(workload: &Workload, n_points: usize) -> Vec<CrashPoint> {
    let mut chance = Chance(workload.seed);
    let n_calls = usize::try_from(workload.n_calls()).unwrap();
    let mut points = Vec::new();
    while points.len() < n_points {
        let point = workload.crash_at(1 + chance.below(n_calls) as u64);
        let writes_a_group = point.name.contains("Sync log/") && !point.name.contains(".tmp");
        if writes_a_group || chance.below(16) == 0 {
            points.push(point);
        }
    }
    points
}

/// What power loss leaves: every other sector of a group, or all but the first one written, which
/// may be an empty group before it, or any subset.
fn torn(point: &CrashPoint, n: usize) -> SimDisk {
    if n % 4 == 3 {
        return point.disk.crash_seeded(n as u64);
    }
    let mut n_sectors = 0;
    if n % 4 == 1 {
        return point.disk.crash(|unflushed| {
            let is_sector =
                matches!(unflushed, Unflushed::Sector { path, .. } if path.starts_with("log/"));
            n_sectors += usize::from(is_sector);
            if is_sector && n_sectors == 1 { 0 } else { unflushed.versions() }
        });
    }
    point.disk.crash(|unflushed| match unflushed {
        Unflushed::Sector { number, versions, .. } if number % 2 == n % 4 / 2 => *versions,
        Unflushed::Sector { .. } => 0,
        Unflushed::Length { .. } | Unflushed::Name { .. } => unflushed.versions(),
    })
}

fn judged(
    disk: &SimDisk,
    point: &CrashPoint,
    config: &StoreConfig,
    name: &str,
) -> (Recovered, SimDisk) {
    recover(disk, config, &point.truth, Promise::Settled)
        .unwrap_or_else(|text| panic!("{name}: {text}"))
}

fn n_calls_of_opening(image: &DiskImage, config: &StoreConfig) -> u64 {
    let disk = SimDisk::from_image(image);
    open(&disk, config).map(|_opened| disk.calls()).unwrap()
}

#[test]
fn f38_a_crash_at_every_call_of_recovery_leaves_what_one_recovery_finds() {
    for seed in 51..=quick_or_long(53, 70) {
        let workload = Workload::new(small(History::Drop), seed, 40);
        let config = &workload.config;
        for (n, point) in crash_points(&workload, quick_or_long(10, 60)).into_iter().enumerate() {
            let image = torn(&point, n).image();
            let (once, _) = judged(&SimDisk::from_image(&image), &point, config, &point.name);
            for call in 1..=n_calls_of_opening(&image, config) {
                let disk = SimDisk::from_image(&image);
                disk.stop_at(Some(call));
                drop(open(&disk, config));
                let then = disk.stopped().unwrap_or_default();
                let name = format!("{}, crash {n}, then at {then}", point.name);
                let (twice, disk) = judged(&disk.crash_seeded(call), &point, config, &name);
                assert!(twice.found == once.found, "{name}: not what one recovery finds");
                let (again, _) = judged(&disk, &point, config, &name);
                same(&twice, &again).unwrap_or_else(|text| panic!("{name}: {text}"));
                assert_eq!(again.cut_bytes, 0, "{name}: was to be cut again");
            }
        }
    }
}

#[test]
fn f05_a_run_whose_only_group_was_torn_is_not_used_again() {
    let mut workload = Workload::new(small(History::Keep), 61, 0);
    workload.acts = vec![Act::Event { seat: 1, bytes: 3_000, lazy: false }];
    let torn_group = |point: &CrashPoint| point.name.contains("Sync log/0000000000000000 ");
    let points = (1..=workload.n_calls()).map(|call| workload.crash_at(call));
    for point in points.filter(torn_group) {
        let config = &workload.config;
        let (first, disk) = judged(&torn(&point, 0), &point, config, &point.name);
        let (second, _) = judged(&disk, &point, config, &point.name);
        assert!(first.cut_bytes > 0 && second.run >= first.run, "{first:?}, then {second:?}");
    }
}

#[test]
fn f38_power_lost_inside_a_recovery_after_a_kill_loses_nothing_that_was_settled() {
    for seed in 54..=quick_or_long(55, 70) {
        let workload = Workload::new(small(History::Keep), seed, 40);
        let config = &workload.config;
        for point in crash_points(&workload, quick_or_long(8, 60)) {
            let image = point.disk.kill().image();
            for call in 1..=n_calls_of_opening(&image, config) {
                let disk = SimDisk::from_image(&image);
                disk.stop_at(Some(call));
                drop(open(&disk, config));
                let name = format!("{}, then at {:?}", point.name, disk.stopped());
                judged(&disk.crash_seeded(call), &point, config, &name);
            }
        }
    }
}

#[test]
fn f38_f43_a_fault_at_every_call_of_recovery_changes_nothing_for_the_next_one() {
    let faults = [DiskFault::Io, DiskFault::NoSpace, DiskFault::ReadOnly, DiskFault::TooManyFiles];
    for seed in 56..=quick_or_long(57, 70) {
        let workload = Workload::new(small(History::Keep), seed, 40);
        let (config, mut n_refused) = (&workload.config, 0);
        for (n, point) in crash_points(&workload, quick_or_long(12, 40)).into_iter().enumerate() {
            let image = torn(&point, n).image();
            let (once, _) = judged(&SimDisk::from_image(&image), &point, config, &point.name);
            let calls = 1..=n_calls_of_opening(&image, config);
            for (call, fault) in calls.flat_map(|call| faults.map(|fault| (call, fault))) {
                let disk = SimDisk::from_image(&image);
                disk.fail_call(call, fault);
                let name = format!("{}, crash {n}, then {fault:?} at call {call}", point.name);
                match open(&disk, config) {
                    Err(_) => n_refused += 1,
                    Ok(opened) => {
                        let found = survey(&*opened.store, &point.truth, Promise::Settled)
                            .unwrap_or_else(|text| panic!("{name}: {text}"));
                        assert!(found == once.found, "{name}: opened with something else");
                    }
                }
                let (twice, disk) = judged(&disk.kill(), &point, config, &name);
                assert!(twice.found == once.found, "{name}: not what one recovery finds");
                // The torn bytes may be back, if it was the flush of their zeros that failed.
                let acts = [Act::Event { seat: 1, bytes: 10, lazy: false }];
                recover_and_go_on(&disk, config, (&point.truth, Promise::Settled), &acts)
                    .unwrap_or_else(|text| panic!("{name}: {text}"));
            }
        }
        assert!(n_refused > 50, "seed {seed}: only {n_refused} openings failed");
    }
}

#[test]
fn f43_a_torn_tail_on_a_full_or_read_only_disk_is_shown_and_cut_when_it_can_be() {
    let mut n_read_only = 0;
    for seed in 58..=quick_or_long(60, 80) {
        let workload = Workload::new(small(History::Keep), seed, 40);
        let config = &workload.config;
        for (n, point) in crash_points(&workload, quick_or_long(12, 40)).into_iter().enumerate() {
            let image = torn(&point, n).image();
            let (once, _) = judged(&SimDisk::from_image(&image), &point, config, &point.name);
            let disk = SimDisk::from_image(&image);
            disk.set_capacity(Some(disk.used_bytes()));
            let before = disk.files();
            if let Ok(opened) = open(&disk, config) {
                let found = survey(&*opened.store, &point.truth, Promise::Settled)
                    .unwrap_or_else(|text| panic!("{} on a full disk: {text}", point.name));
                assert!(found == once.found, "{} on a full disk: something else", point.name);
                if opened.store.recovery().read_only.is_some() {
                    n_read_only += 1;
                    assert!(opened.store.fault().is_some());
                    let log = |(path, _): &(&String, &Vec<u8>)| path.starts_with("log/");
                    let (before, after) = (before.iter().filter(log), disk.files());
                    assert!(before.eq(after.iter().filter(log)), "{}: changed", point.name);
                }
            }
            disk.set_capacity(None);
            let (twice, _) = judged(&disk.kill(), &point, config, &point.name);
            assert!(twice.found == once.found, "{} with room again", point.name);
        }
    }
    assert!(n_read_only > 0, "no torn tail met a full disk");
}
