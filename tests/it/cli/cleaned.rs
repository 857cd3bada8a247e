//! A journal that is cleaned while it is written.
//!
//! **Boundary**: counts files and what the summary says was read; what is in them is checked by
//! verification.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::program::{assert_sound, finished, trace};

/// Segments that are made ahead of use, which a start reads through to look for groups.
const AHEAD: u64 = 5;
/// What the replay of one person's session reads, about.
const SNAPSHOT: u64 = 512;

#[test]
fn m61_a_replay_frees_most_of_its_segments() {
    let file = trace();
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    let summary = replayed(&file.path, &data, (1 << 20, 4 << 20));
    assert_eq!(summary["handled"], file.trace.lines().len(), "{summary}");
    assert_sound(&data, "a cleaned log");
    let (there, ever) = segments(&data);
    println!("{there} of {ever} segments are left");
    assert!(there * 2 < ever, "{there} of {ever} segments are left");
}

#[test]
fn m61_a_start_reads_no_more_with_ten_times_the_history() {
    const SEGMENT: u64 = 128 * 1024;
    const HEADS_EVERY: u64 = 1024 * 1024;
    let file = trace();
    let home = tempfile::tempdir().expect("a directory");
    let lines: String = (file.trace.first(Some(6_000)).iter())
        .map(|line| format!("{} {} {}\n", line.from, line.to, line.time))
        .collect();
    let [once, ten_times] = [1, 10].map(|times| {
        let (path, data) =
            (home.path().join(times.to_string()), home.path().join(format!("data-{times}")));
        fs::write(&path, lines.repeat(times)).expect("a trace can be written");
        let summary = replayed(&path, &data, (SEGMENT, HEADS_EVERY));
        assert_eq!(summary["handled"], times * 6_000, "{times}: {summary}");
        let (_, ever) = segments(&data);
        assert!(ever * SEGMENT > 2 * HEADS_EVERY, "{times}: only {ever} segments were written");
        let again = replayed(&path, &data, (SEGMENT, HEADS_EVERY));
        again["recovery"]["bytes_read"].as_u64().unwrap()
    });
    println!("a start reads {once} and {ten_times} bytes");
    // How much of an interval was written when the run ended is chance, and so is what the cleaner
    // has cold sessions replay meanwhile: their snapshots, never their history.
    let snapshots = SNAPSHOT * 1_899;
    let most = HEADS_EVERY + AHEAD * SEGMENT + snapshots;
    assert!(once <= most, "a start reads {once} bytes");
    assert!(ten_times <= most, "a start reads {ten_times} bytes");
}

/// Replays with segments of so many bytes, heads saved as often, and history dropped.
fn replayed(trace: &Path, data: &Path, (segment, heads_every): (u64, u64)) -> Value {
    let (segment, heads) = (segment.to_string(), heads_every.to_string());
    let args = [
        "replay",
        trace.to_str().unwrap(),
        "--data",
        data.to_str().unwrap(),
        "--segment-bytes",
        &segment,
        "--heads-every",
        &heads,
        "--history",
        "drop",
        "--json",
    ];
    finished(args).summary("a replay")
}

/// Segment files there are, and how many there ever were.
fn segments(data: &Path) -> (u64, u64) {
    let names: Vec<String> = fs::read_dir(data.join("log"))
        .expect("the log can be listed")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    let number = |name: &String| u64::from_str_radix(name, 16).expect("a segment's number");
    (names.len() as u64, names.iter().map(number).max().unwrap() + 1)
}
