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
    assert_unharmed_by_kills(&[]);
}

#[test]
fn f14_a_replay_that_is_killed_while_its_log_is_cleaned_ends_as_if_it_never_was() {
    assert_unharmed_by_kills(&[
        "--segment-bytes",
        "262144",
        "--heads-every",
        "524288",
        "--snapshot-every",
        "8",
    ]);
}

#[test]
fn f14_a_written_receipt_survives_kills_too() {
    assert_unharmed_by_kills(&["--durability", "written"]);
}

fn assert_unharmed_by_kills(flags: &[&str]) {
    let seed = std::env::var("CALLBOARD_SEED").ok().map_or(14, |seed| seed.parse().unwrap());
    let file = trace();
    let (n_kills, limit) = if is_long() { (20, file.trace.lines().len()) } else { (6, 20_000) };
    let lines = file.trace.first(Some(limit as u64));
    let home = tempfile::tempdir().expect("a directory");
    let (data, receipts) = (home.path().join("data"), home.path().join("receipts"));
    let limit = lines.len().to_string();
    let args: Vec<&str> = [
        "replay",
        file.path.to_str().unwrap(),
        "--limit",
        &limit,
        "--data",
        data.to_str().unwrap(),
        "--receipts",
        receipts.to_str().unwrap(),
        "--json",
    ]
    .into_iter()
    .chain(flags.iter().copied())
    .collect();

    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    let mut written = LineCounter::new(&receipts);
    for kill in 0..n_kills {
        let point = point(&mut chance, written.count(), (kill, n_kills), lines.len());
        let context = format!("seed {seed}, kill {kill} at receipt {point}");
        // Where the point is behind already, the kill meets the start of a run, or its recovery.
        let moment = Duration::from_micros(chance.next_u64() % 50_000);
        let is_behind = written.count() >= point;
        let start = Instant::now();
        let mut run = Running::start(callboard(&args));
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
    let summary = finished(&args).summary(&context);
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

/// The number of receipts at which to kill next: twice before there is any, then spread over what
/// is left. A kill can cost as many receipts as there were sends under way, so that less may be
/// left than receipts tell; the point is never so late that the run might end meanwhile.
fn point(
    chance: &mut ChaCha8Rng,
    n_receipts: usize,
    (kill, n_kills): (usize, usize),
    n_lines: usize,
) -> usize {
    let left = n_lines.saturating_sub(n_receipts + (kill + 1) * UNDER_WAY);
    let most = (2 * left / (n_kills - kill)).min(left * 4 / 5).max(1);
    match kill {
        0 | 1 => 0,
        _ => n_receipts + (chance.next_u64() % most as u64) as usize,
    }
}

pub(crate) fn receipts_in(path: &Path, context: &str) -> Vec<[u64; 4]> {
    let text = fs::read_to_string(path).expect("receipts can be read");
    let receipt = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        assert_eq!(fields.len(), 5, "{context}: the receipt `{line}`");
        [0, 1, 2, 3].map(|at: usize| fields[at].parse().unwrap())
    };
    text.lines().map(receipt).collect()
}
