//! Kill after kill, at any moment of a replay whose log is cleaned all the time.
//!
//! **Invariant**: a round is one kill; where a replay is over before its kill, it is checked and
//! the next one begins in a directory of its own.

use std::time::{Duration, Instant};

use super::gate;
use super::rounds::{CLEANED, Replay, below, chance, n_rounds};
use crate::cli::program::{LineCounter, Running, callboard};

#[test]
fn f14_f39_two_hundred_kills_of_a_cleaned_log_lose_and_double_nothing_in_sync() {
    if gate::is_wanted("two hundred kills in sync") {
        assert_unharmed_by_kills("sync");
    }
}

#[test]
fn f14_f39_two_hundred_kills_of_a_cleaned_log_lose_and_double_nothing_in_written() {
    if gate::is_wanted("two hundred kills in written") {
        assert_unharmed_by_kills("written");
    }
}

/// Receipts after which a kill comes, at most.
const RECEIPTS: usize = 600;
/// How long a kill comes after its receipt or after the start, at most, in microseconds.
const DELAY_US: usize = 60_000;

fn assert_unharmed_by_kills(durability: &str) {
    let (mut chance, seed) = chance();
    let n_rounds = n_rounds(200);
    let flags: Vec<&str> = CLEANED.into_iter().chain(["--durability", durability]).collect();
    let (mut n_kills, mut n_replays) = (0, 0);
    while n_kills < n_rounds {
        let replay = Replay::new(usize::MAX, &flags);
        let mut written = LineCounter::new(&replay.receipts);
        n_replays += 1;
        loop {
            let context = format!("{durability}, seed {seed}, replay {n_replays}, kill {n_kills}");
            if n_kills == n_rounds {
                replay.assert_ends_whole(&context);
                break;
            }
            // Each third kill meets the start of a run, or its recovery.
            let point = match n_kills % 3 {
                0 => 0,
                _ => written.count() + 1 + below(&mut chance, RECEIPTS),
            };
            let delay = Duration::from_micros(below(&mut chance, DELAY_US) as u64);
            let mut run = Running::start(callboard(replay.args()));
            run.wait_until(|| written.count() >= point);
            let reached = Instant::now();
            run.wait_until(|| reached.elapsed() >= delay);
            if !run.is_over() {
                // One that ends just now can still be killed, since nobody has waited for it.
                run.signal("KILL");
            }
            let killed = run.finish();
            if killed.code.is_some() {
                replay.assert_whole(killed, &context);
                break;
            }
            n_kills += 1;
            if n_kills % 20 == 0 {
                replay.assert_sound(&context);
            }
        }
    }
    println!("{durability}, seed {seed}: {n_kills} kills of {n_replays} replays");
}
