//! Power loss and kill at every call of a small workload: what was promised is there.

use callboard::config::{Durability, History, StoreConfig};
use callboard::persist::SimDisk;

use crate::archive::{quick_or_long, recover_and_go_on, small};
use crate::truth::Promise;
use crate::workload::{CrashPoint, Workload};

/// Every choice of what a crash keeps where there are few, else a few drawn from a seed.
fn losses(point: &CrashPoint, call: u64) -> Vec<(SimDisk, String)> {
    let image = point.disk.image();
    let versions = point.disk.unflushed();
    let mut n_choices = 1_usize;
    for versions in &versions {
        n_choices = n_choices.saturating_mul(versions + 1);
    }
    if n_choices <= quick_or_long(6, 256) {
        let lose = |choice: usize| {
            let mut rest = choice;
            let disk = SimDisk::from_image(&image).crash(|unflushed| {
                let kept = rest % (unflushed.versions() + 1);
                rest /= unflushed.versions() + 1;
                kept
            });
            (disk, format!("{} keeping choice {choice} of {n_choices}", point.name))
        };
        return (0..n_choices).map(lose).collect();
    }
    let lose = |n: u64| {
        let seed = call * 1_000 + n;
        let disk = SimDisk::from_image(&image).crash_seeded(seed);
        (disk, format!("{} losing by seed {seed}", point.name))
    };
    (0..quick_or_long(3, 40)).map(lose).collect()
}

fn power_loss_at_every_call(workload: &Workload) {
    for call in 1..=workload.n_calls() {
        let point = workload.crash_at(call);
        let after = workload.epilogue(call);
        for (disk, name) in losses(&point, call) {
            recover_and_go_on(&disk, &workload.config, (&point.truth, workload.promise), &after)
                .unwrap_or_else(|text| panic!("{name}: {text}"));
        }
    }
}

fn kill_at_every_call(workload: &Workload) {
    for call in 1..=workload.n_calls() {
        let point = workload.crash_at(call);
        let after = workload.epilogue(call);
        let disk = point.disk.kill();
        recover_and_go_on(&disk, &workload.config, (&point.truth, Promise::Settled), &after)
            .unwrap_or_else(|text| panic!("{} killed: {text}", point.name));
    }
}

fn written(history: History) -> StoreConfig {
    StoreConfig { durability: Durability::Written, ..small(history) }
}

#[test]
fn f01_f14_a_receipt_survives_power_loss_at_every_call_while_segments_are_dropped() {
    for seed in 1..=quick_or_long(1, 4) {
        power_loss_at_every_call(&Workload::new(small(History::Drop), seed, 50));
    }
}

#[test]
fn f01_f14_a_receipt_survives_power_loss_at_every_call_while_segments_are_kept() {
    for seed in 11..=quick_or_long(11, 14) {
        power_loss_at_every_call(&Workload::new(small(History::Keep), seed, 50));
    }
}

#[test]
fn f39_a_kill_at_every_call_loses_nothing_that_was_settled() {
    for seed in 21..=quick_or_long(21, 24) {
        kill_at_every_call(&Workload::new(small(History::Drop), seed, 50));
    }
}

#[test]
fn f05_in_written_mode_a_power_loss_leaves_a_prefix_and_numbers_never_repeat() {
    for seed in 31..=quick_or_long(31, 34) {
        power_loss_at_every_call(&Workload::new(written(History::Drop), seed, 50));
    }
}

#[test]
fn f39_in_written_mode_a_kill_at_every_call_keeps_all() {
    for seed in 41..=quick_or_long(41, 44) {
        kill_at_every_call(&Workload::new(written(History::Keep), seed, 50));
    }
}
