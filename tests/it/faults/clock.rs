//! A clock that jumps, while a replay runs and between two runs.
//!
//! **Invariant**: nothing waits for lost time and nothing is lost by it; the journal shows that
//! the jumps were seen.

use std::fs;
use std::path::Path;

use super::gate;
use super::rounds::{KEPT, Replay};
use crate::cli::program::{LineCounter, Running, callboard, dump};

/// Days in milliseconds.
const DAY: u64 = 24 * 3_600 * 1_000;

#[test]
fn f50_a_clock_that_jumps_a_year_ahead_and_a_day_back_changes_no_outcome() {
    for durability in ["sync", "written"] {
        let test = format!("a clock that jumps, {durability}");
        let Some(library) = gate::false_clock(&test) else { return };
        let flags: Vec<&str> = KEPT.into_iter().chain(["--durability", durability]).collect();
        let replay = Replay::new(20_000, &flags);
        let home = tempfile::tempdir().expect("a directory");
        let clock = home.path().join("clock");
        let mut written = LineCounter::new(&replay.receipts);
        // Each run begins with the first and jumps to the second; the last runs to its end.
        let runs = [("+0d", "+365d"), ("+365d", "-1d"), ("-1d", "+0d"), ("+365d", "+364d")];
        for (at, (before, after)) in runs.into_iter().enumerate() {
            let context = format!("{durability}, run {at}: {before} to {after}");
            set(&clock, before);
            let mut run = Running::start(with_clock(&replay.args(), &library, &clock));
            let part = replay.n_lines / 10;
            let point = written.count() + part;
            assert!(run.wait_until(|| written.count() >= point), "{context}: {:?}", run.finish());
            set(&clock, after);
            if at + 1 == runs.len() {
                run.wait_until(|| false);
                replay.assert_whole(run.finish(), &context);
                break;
            }
            let point = written.count() + part;
            assert!(run.wait_until(|| written.count() >= point), "{context}: {:?}", run.finish());
            run.signal("KILL");
            run.finish();
            replay.assert_sound(&context);
        }
        let dump = dump(&replay.data, &test);
        let times = || dump.iter().filter_map(|shown| shown["time"].as_u64());
        let (first, last) = (times().min().expect("a time"), times().max().expect("a time"));
        assert!(last - first > 365 * DAY, "{test}: the jumps were not seen: {first} to {last}");
    }
}

/// Replaced as a whole, since the process reads it all the time.
fn set(clock: &Path, offset: &str) {
    let aside = clock.with_extension("aside");
    fs::write(&aside, format!("{offset}\n")).expect("it can be written");
    fs::rename(&aside, clock).expect("it can be replaced");
}

/// The binary with another time of day. Time that only runs stays true, as when a clock is set.
fn with_clock(args: &[String], library: &Path, clock: &Path) -> std::process::Command {
    let mut command = callboard(args);
    command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", clock);
    for name in ["FAKETIME_NO_CACHE", "FAKETIME_DONT_FAKE_MONOTONIC", "DONT_FAKE_MONOTONIC"] {
        command.env(name, "1");
    }
    command
}
