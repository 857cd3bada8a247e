//! A small file system that fills up, is emptied, and turns read-only.
//!
//! **Boundary**: a file system that is written to cannot be mounted read-only by anybody, so that
//! happens between two runs; that writes are refused in the middle of one, `calls` brings about.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::gate::Mounted;
use super::rounds::{CLEANED, Replay, below, chance, n_rounds};
use crate::cli::program::{LineCounter, Running, callboard, dump, finished};

/// The smallest segments.
const SMALLEST: [&str; 8] = [
    "--segment-bytes",
    "8192",
    "--heads-every",
    "16384",
    "--snapshot-every",
    "8",
    "--history",
    "drop",
];

#[test]
fn f43_a_file_system_that_fills_up_says_so_and_the_run_goes_on_when_there_is_room() {
    const KIB: u64 = 4_096;
    let test = "a file system that fills up";
    let (mut chance, seed) = chance();
    let frees: Vec<usize> = (0..n_rounds(8)).map(|_| 8 + below(&mut chance, 380)).collect();
    // At the same time, since a stop on a full disk waits for turns that cannot end.
    std::thread::scope(|scope| {
        for free in frees {
            let Some(mounted) = Mounted::of_kib(test, KIB) else { return };
            scope.spawn(move || {
                let context = format!("seed {seed}, {free} KiB free");
                let filler = mounted.path().join("filler");
                fs::write(&filler, vec![0; (KIB as usize - free) << 10]).expect("there is room");
                let replay = Replay::new(60, &SMALLEST).with_data(mounted.path().join("data"));
                let full = finished(replay.args());
                // How much log sixty lines take is a matter of luck, but never so little.
                if full.code != Some(0) || free < 100 {
                    assert_eq!(full.code, Some(1), "{context}: {full:?}");
                    assert!(full.err.contains("STORE_FULL"), "{context}: {full:?}");
                }
                replay.assert_sound(&context);
                fs::remove_file(&filler).expect("it can be removed");
                replay.assert_ends_whole(&context);
            });
        }
    });
}

#[test]
fn f43_a_bus_whose_disk_fills_up_refuses_sends_and_goes_on_when_it_is_emptied() {
    let Some(mounted) = Mounted::of_kib("a bus whose disk fills up", 4_096) else { return };
    let data = mounted.path().join("data");
    let words = "load --sessions 20 --rate 300 --duration 5s --json --data";
    let mut args: Vec<&str> = words.split(' ').collect();
    args.push(data.to_str().unwrap());
    args.extend(SMALLEST);
    let mut run = Running::start(callboard(&args));
    // The load has begun when its log has grown by what it prepares before.
    run.wait_until(|| n_segments(&data) > 40);
    let filler = mounted.path().join("filler");
    fs::write(&filler, vec![0; 8 << 20]).expect_err("there is no room for that");
    let full = Instant::now();
    run.wait_until(|| full.elapsed() >= Duration::from_secs(1));
    fs::remove_file(&filler).expect("it can be removed");
    let report = run.finish().summary("a load");
    assert_eq!((&report["lost"], &report["duplicates"]), (&0.into(), &0.into()), "{report}");
    let errors = report["errors"].as_object().expect("errors by code");
    assert_eq!(errors.keys().collect::<Vec<_>>(), ["STORE_FULL"], "{report}");
    let seconds = report["series"].as_array().expect("a series");
    let refused = seconds.iter().position(|second| second["errors"] != 0).expect("a second");
    let served = seconds.iter().rposition(|second| second["queued"] != 0).expect("a second");
    assert!(served > refused, "it did not go on: {report}");
    assert!(report["limit_messages_per_s"].is_null(), "no room to measure in: {report}");
}

#[test]
fn f43_a_file_system_that_turns_read_only_between_two_runs_is_told_and_used_again_later() {
    let test = "a file system that turns read-only";
    let Some(mounted) = Mounted::of_kib(test, 65_536) else { return };
    let replay = Replay::new(5_000, &CLEANED).with_data(mounted.path().join("data"));
    let mut written = LineCounter::new(&replay.receipts);
    let mut run = Running::start(callboard(replay.args()));
    assert!(run.wait_until(|| written.count() > 500), "it was over before");
    run.signal("KILL");
    assert_eq!(run.finish().code, None, "it was over before");

    mounted.remount("ro");
    let before = dump(&replay.data, "read-only").len();
    let refused = finished(replay.args());
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("STORE_READ_ONLY"), "{refused:?}");
    replay.assert_sound("read-only");
    assert_eq!(dump(&replay.data, "read-only, again").len(), before);
    mounted.remount("rw");
    replay.assert_ends_whole("writable again");
}

fn n_segments(data: &Path) -> u64 {
    let names = fs::read_dir(data.join("log")).into_iter().flatten().flatten();
    let number = |name: &str| u64::from_str_radix(name, 16).ok();
    names.filter_map(|entry| number(entry.file_name().to_str()?)).max().unwrap_or(0)
}
