//! Power loss and kill at every call of a small workload: what was promised is there.

use callboard::config::{Durability, History, StoreConfig};
use callboard::persist::SimDisk;

use crate::archive::{SEATS, live, open, quick_or_long, recover, recover_and_go_on, same, small};
use crate::chance::Chance;
use crate::script::{Act, script};
use crate::truth::{Promise, Truth};

/// Crash points of a workload are looked at one by one.
struct Workload {
    config: StoreConfig,
    seed: u64,
    acts: Vec<Act>,
    promise: Promise,
}

/// The disk as it was when a call was stopped, and what had been promised by then.
struct CrashPoint {
    disk: SimDisk,
    truth: Truth,
    name: String,
}

impl Workload {
    fn new(config: StoreConfig, seed: u64, n_acts: usize) -> Self {
        let promise = match config.durability {
            Durability::Written => Promise::Prefix,
            Durability::Sync | Durability::Memory => Promise::Settled,
        };
        Workload { config, seed, acts: script(seed, n_acts, SEATS), promise }
    }

    fn n_calls(&self) -> u64 {
        let disk = SimDisk::new();
        let lived = live(&disk, &self.config, Truth::new(SEATS), &self.acts);
        lived.trouble.unwrap_or_else(|trouble| panic!("seed {}: {trouble:?}", self.seed));
        disk.calls()
    }

    fn crash_at(&self, call: u64) -> CrashPoint {
        let disk = SimDisk::new();
        disk.stop_at(Some(call));
        let lived = live(&disk, &self.config, Truth::new(SEATS), &self.acts);
        let stopped = disk.stopped().unwrap_or_default();
        let name = format!("seed {} crash at {stopped}", self.seed);
        let truth = lived.truth_unless_wrong().unwrap_or_else(|text| panic!("{name}: {text}"));
        CrashPoint { disk, truth, name }
    }

    /// What a process does after the crash.
    fn epilogue(&self, call: u64) -> Vec<Act> {
        script(self.seed ^ call, 12, SEATS)
    }
}

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
        power_loss_at_every_call(&Workload::new(small(History::Drop), seed, 90));
    }
}

#[test]
fn f01_f14_a_receipt_survives_power_loss_at_every_call_while_segments_are_kept() {
    for seed in 11..=quick_or_long(11, 14) {
        power_loss_at_every_call(&Workload::new(small(History::Keep), seed, 90));
    }
}

#[test]
fn f39_a_kill_at_every_call_loses_nothing_that_was_settled() {
    for seed in 21..=quick_or_long(21, 24) {
        kill_at_every_call(&Workload::new(small(History::Drop), seed, 90));
    }
}

#[test]
fn f05_in_written_mode_a_power_loss_leaves_a_prefix_and_numbers_never_repeat() {
    for seed in 31..=quick_or_long(31, 34) {
        power_loss_at_every_call(&Workload::new(written(History::Drop), seed, 90));
    }
}

#[test]
fn f39_in_written_mode_a_kill_at_every_call_keeps_all() {
    for seed in 41..=quick_or_long(41, 44) {
        kill_at_every_call(&Workload::new(written(History::Keep), seed, 90));
    }
}

#[test]
fn f38_a_crash_at_every_call_of_recovery_leaves_what_one_recovery_finds() {
    let mut chance = Chance(51);
    for seed in 51..=quick_or_long(53, 70) {
        let workload = Workload::new(small(History::Drop), seed, 60);
        let n_calls = workload.n_calls();
        for _ in 0..quick_or_long(12, 60) {
            let call = 1 + chance.below(usize::try_from(n_calls).unwrap()) as u64;
            let point = workload.crash_at(call);
            let disk = point.disk.crash_seeded(call);
            crash_in_recovery(&workload, &disk, &point);
        }
    }
}

fn crash_in_recovery(workload: &Workload, disk: &SimDisk, point: &CrashPoint) {
    let image = disk.image();
    let (config, truth) = (&workload.config, &point.truth);
    let whole = SimDisk::from_image(&image);
    let n_calls = open(&whole, config).map(|_opened| whole.calls());
    let n_calls = n_calls.unwrap_or_else(|fault| panic!("{}: {fault}", point.name));
    let judge = |disk: &SimDisk, name: &str| {
        recover(disk, config, truth, Promise::Settled)
            .unwrap_or_else(|text| panic!("{name}: {text}"))
    };
    let (once, _) = judge(&SimDisk::from_image(&image), &point.name);
    for call in 1..=n_calls {
        let disk = SimDisk::from_image(&image);
        disk.stop_at(Some(call));
        drop(open(&disk, config));
        let name = format!("{}, then at {}", point.name, disk.stopped().unwrap_or_default());
        let (twice, disk) = judge(&disk.crash_seeded(call), &name);
        assert!(twice.found == once.found, "{name}: another state than one recovery finds");
        let (again, _) = judge(&disk, &name);
        same(&twice, &again).unwrap_or_else(|text| panic!("{name}: {text}"));
    }
}
