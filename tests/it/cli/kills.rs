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
    Running, assert_accepted_once, assert_sound, callboard, finished, is_long, n_lines, trace,
};

#[test]
fn f14_a_replay_that_is_killed_at_random_points_ends_as_if_it_never_was() {
    let seed = std::env::var("CALLBOARD_SEED").ok().map_or(14, |seed| seed.parse().unwrap());
    let file = trace();
    let (n_kills, limit) = if is_long() { (20, file.trace.lines().len()) } else { (5, 6_000) };
    let lines = file.trace.first(Some(limit as u64));
    let home = tempfile::tempdir().expect("a directory");
    let (data, receipts) = (home.path().join("data"), home.path().join("receipts"));
    let limit = limit.to_string();
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
    for (kill, point) in points(&mut chance, n_kills, lines.len()).into_iter().enumerate() {
        let context = format!("seed {seed}, kill {kill} at receipt {point}");
        let mut run = Running::start(callboard(args));
        let patience = Duration::from_micros(chance.next_u64() % 50_000);
        let start = Instant::now();
        let seen = run.wait_until(|| n_lines(&receipts) >= point && start.elapsed() >= patience);
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

/// Numbers of receipts at which to kill, the first before there is any.
fn points(chance: &mut ChaCha8Rng, n_kills: usize, n_lines: usize) -> Vec<usize> {
    let last = n_lines as u64 * 95 / 100;
    let mut points: Vec<usize> =
        (1..n_kills).map(|_| (chance.next_u64() % last) as usize).chain([0]).collect();
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
