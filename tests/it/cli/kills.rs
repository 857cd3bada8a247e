//! A replay that is killed again and again.
//!
//! **Invariant**: each kill meets an unfinished run; the seed is in every message.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::program::{
    LineCounter, Running, assert_accepted_once, assert_sound, callboard, finished, is_long, trace,
};

/// As many sends as a replay has under way.
const UNDER_WAY: usize = 1_024;

#[test]
fn f14_a_replay_that_is_killed_at_random_points_ends_as_if_it_never_was() {
    let seed = std::env::var("CALLBOARD_SEED").ok().map_or(14, |seed| seed.parse().unwrap());
    let file = trace();
    let (n_kills, limit) = if is_long() { (20, file.trace.lines().len()) } else { (6, 20_000) };
    let lines = file.trace.first(Some(limit as u64));
    let home = tempfile::tempdir().expect("a directory");
    let (data, receipts) = (home.path().join("data"), home.path().join("receipts"));
    let limit = lines.len().to_string();
    let args = [
        "replay",
        file.path.to_str().unwrap(),
        "--limit",
        &limit,
        "--data",
        data.to_str().unwrap(),
        "--receipts",
        receipts.to_str().unwrap(),
        "--json",
    ];

    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    let mut written = LineCounter::new(&receipts);
    for (kill, point) in points(&mut chance, n_kills, lines.len()).into_iter().enumerate() {
        let context = format!("seed {seed}, kill {kill} at receipt {point}");
        // Where the point is behind already, the kill meets the start of a run, or its recovery.
        let moment = Duration::from_micros(chance.next_u64() % 50_000);
        let is_behind = written.count() >= point;
        let start = Instant::now();
        let mut run = Running::start(callboard(args));
        let seen = run.wait_until(|| match is_behind {
            true => start.elapsed() >= moment,
            false => written.count() >= point,
        });
        assert!(seen && !run.is_over(), "{context}: the run was over before: {:?}", run.finish());
        run.signal("KILL");
        let killed = run.finish();
        assert_eq!(killed.code, None, "{context}: the run was over before: {killed:?}");
    }

    let context = format!("seed {seed}, after {n_kills} kills");
    let summary = finished(args).summary(&context);
    println!("seed {seed}: {summary}");
    let behind = assert_accepted_once(&data, lines, &context);
    assert_sound(&data, &context);
    for count in ["queued", "accepted", "handled"] {
        assert_eq!(summary[count], lines.len(), "{context}: {count}: {summary}");
    }
    let mut seen = HashSet::new();
    for receipt in receipts_in(&receipts, &context) {
        let [line, from, to, n] = receipt;
        assert_eq!(behind.get(&(from, to, n)), Some(&line), "{context}: receipt {receipt:?}");
        assert!(seen.insert(line), "{context}: line {line} has two receipts");
    }
}

/// Numbers of receipts at which to kill: two before there is any, none so late that the run might
/// end meanwhile. A kill can cost as many receipts as there were sends under way.
fn points(chance: &mut ChaCha8Rng, n_kills: usize, n_lines: usize) -> Vec<usize> {
    let last = (n_lines * 9 / 10).saturating_sub(n_kills * UNDER_WAY).max(1);
    let point = |_| (chance.next_u64() % last as u64) as usize;
    let mut points: Vec<usize> = (2..n_kills).map(point).chain([0, 0]).collect();
    points.sort_unstable();
    points
}

fn receipts_in(path: &Path, context: &str) -> Vec<[u64; 4]> {
    let text = fs::read_to_string(path).expect("receipts can be read");
    let receipt = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        assert_eq!(fields.len(), 5, "{context}: the receipt `{line}`");
        [0, 1, 2, 3].map(|at: usize| fields[at].parse().unwrap())
    };
    text.lines().map(receipt).collect()
}
