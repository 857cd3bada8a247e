//! System calls that fail: the n-th flush, write, rename or opening, with an error or with death.
//!
//! **Invariant**: after each fault nothing is damaged, and a run without faults ends with every
//! line accepted once and every receipt true.

use super::gate;
use super::rounds::{CLEANED, KEPT, Replay, below, chance, n_rounds};
use super::tracer::{Fault, n_calls};
use crate::cli::program::{Finished, finished};

const CALLS: [&str; 6] = ["fdatasync", "fsync", "pwrite64", "rename", "openat", "unlink"];
const FAULTS: [&str; 3] = ["error=EIO", "error=ENOSPC", "signal=SIGKILL"];
/// Lines of a replay; strace makes each call some ten times slower.
const LINES: usize = 400;
/// Places at which each fault of each call is tried.
const PLACES: usize = 6;

#[test]
fn f41_f43_f44_a_system_call_that_fails_anywhere_in_a_replay_loses_and_doubles_nothing() {
    if !gate::has_strace("system calls that fail in a replay") {
        return;
    }
    let (mut chance, seed) = chance();
    let mut n_struck = 0;
    for call in CALLS {
        let last = n_calls(call, &Replay::new(LINES, &KEPT).args());
        for what in FAULTS {
            for place in 0..n_rounds(PLACES) {
                // The first calls open the directory; the others lie anywhere.
                let when = if place == 0 { 1 } else { 1 + below(&mut chance, last) };
                let fault = Fault { call, what, when: when.to_string() };
                let context = format!("seed {seed}, {fault} of {last}");
                let replay = Replay::new(LINES, &KEPT);
                let struck = fault.run(&replay.args());
                n_struck += usize::from(struck.code != Some(0));
                assert_told(&struck, what, &context);
                replay.assert_sound(&context);
                replay.assert_ends_whole(&context);
            }
        }
    }
    assert!(n_struck > 0, "seed {seed}: no fault was met");
    println!("seed {seed}: {n_struck} runs ended by their fault");
}

#[test]
fn f38_f39_f43_a_system_call_that_fails_in_a_recovery_changes_nothing_for_the_next_one() {
    if !gate::has_strace("system calls that fail in a recovery") {
        return;
    }
    let (mut chance, seed) = chance();
    let last = n_calls("fdatasync", &Replay::new(LINES, &CLEANED).args());
    for call in CALLS {
        for what in FAULTS {
            let when = (1 + below(&mut chance, last)).to_string();
            let death = Fault { call: "fdatasync", what: "signal=SIGKILL", when };
            let replay = Replay::new(LINES, &CLEANED);
            death.run(&replay.args());
            for _ in 0..n_rounds(3) {
                let when = (1 + below(&mut chance, 20)).to_string();
                let fault = Fault { call, what, when };
                let context = format!("seed {seed}, after {death}, {fault}");
                let struck = fault.run(&replay.args());
                assert_told(&struck, what, &context);
                replay.assert_sound(&context);
            }
            replay.assert_ends_whole(&format!("seed {seed}, after {death}, {call} {what}"));
        }
    }
}

#[test]
fn f43_a_disk_that_is_read_only_for_a_while_refuses_and_serves_again_in_one_process() {
    if gate::has_strace("a disk that is read-only for a while") {
        assert_serves_again_after_a_second();
    }
}

/// A load whose writes fail for about a second: the store tries again ten times a second.
fn assert_serves_again_after_a_second() {
    let (what, code) = ("error=EROFS", "STORE_READ_ONLY");
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    let words = "load --sessions 20 --rate 300 --duration 5s --segment-bytes 65536 --json --data";
    let mut args: Vec<String> = words.split(' ').map(str::to_owned).collect();
    args.push(data.to_str().expect("a path is text").to_owned());
    let fault = Fault { call: "pwrite64", what, when: "150..160".to_owned() };
    let report = fault.run(&args).summary(what);
    assert_eq!((&report["lost"], &report["duplicates"]), (&0.into(), &0.into()), "{report}");
    let errors = report["errors"].as_object().expect("errors by code");
    assert_eq!(errors.keys().collect::<Vec<_>>(), [code], "{report}");
    let seconds = report["series"].as_array().expect("a series");
    let refused = seconds.iter().position(|second| second["errors"] != 0).expect("a second");
    let served = seconds.iter().rposition(|second| second["queued"] != 0).expect("a second");
    assert!(served > refused, "it did not go on: {report}");
    let n_errors: u64 = errors.values().filter_map(|count| count.as_u64()).sum();
    let n_queued = report["queued"].as_u64().expect("a count");
    assert_eq!(report["sent"], n_queued + n_errors, "{report}");
    let verify = finished(["journal", "verify", data.to_str().unwrap()]);
    assert_eq!(verify.code, Some(0), "{verify:?}");
}

/// A run ends well, by the signal, or with one sentence that names the fault.
fn assert_told(run: &Finished, what: &str, context: &str) {
    let (system, codes) = match what {
        "error=ENOSPC" => ("No space left on device", ["STORE_FULL", "NOT_DURABLE"]),
        _ => ("Input/output error", ["STORE_UNUSABLE", "NOT_DURABLE"]),
    };
    let sentence = run.err.trim_end().lines().last().unwrap_or_default();
    let told = match run.code {
        // What only saves time, as the saving of heads, may fail without a word.
        Some(0) => true,
        // The loader did not find what the program needs: it never began.
        Some(127) => run.err.contains("error while loading shared libraries"),
        Some(1) if what.starts_with("error=") => {
            sentence.starts_with("callboard: ")
                && (sentence.contains(system) || codes.iter().any(|code| sentence.contains(code)))
        }
        None => what.starts_with("signal="),
        Some(_) => false,
    };
    assert!(told, "{context}: {run:?}");
}
