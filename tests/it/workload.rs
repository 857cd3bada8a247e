//! A small workload of the log, and the disk as it was at each of its calls.

use callboard::config::{Durability, StoreConfig};
use callboard::persist::SimDisk;

use crate::archive::{SEATS, live};
use crate::script::{Act, script};
use crate::truth::{Promise, Truth};

/// Crash points of a workload are looked at one by one.
pub(crate) struct Workload {
    pub(crate) config: StoreConfig,
    pub(crate) seed: u64,
    pub(crate) acts: Vec<Act>,
    pub(crate) promise: Promise,
}

/// The disk as it was when a call was stopped, and what had been promised by then.
pub(crate) struct CrashPoint {
    pub(crate) disk: SimDisk,
    pub(crate) truth: Truth,
    pub(crate) name: String,
}

impl Workload {
    pub(crate) fn new(config: StoreConfig, seed: u64, n_acts: usize) -> Self {
        let promise = match config.durability {
            Durability::Written => Promise::Prefix,
            Durability::Sync | Durability::Memory => Promise::Settled,
        };
        Workload { config, seed, acts: script(seed, n_acts, SEATS), promise }
    }

    pub(crate) fn n_calls(&self) -> u64 {
        let disk = SimDisk::new();
        let lived = live(&disk, &self.config, Truth::new(SEATS), &self.acts);
        lived.trouble.unwrap_or_else(|trouble| panic!("seed {}: {trouble:?}", self.seed));
        disk.calls()
    }

    pub(crate) fn crash_at(&self, call: u64) -> CrashPoint {
        let disk = SimDisk::new();
        disk.stop_at(Some(call));
        let lived = live(&disk, &self.config, Truth::new(SEATS), &self.acts);
        let stopped = disk.stopped().unwrap_or_default();
        let name = format!("seed {} crash at {stopped}", self.seed);
        let truth = lived.truth_unless_wrong().unwrap_or_else(|text| panic!("{name}: {text}"));
        CrashPoint { disk, truth, name }
    }

    /// What a process does after the crash.
    pub(crate) fn epilogue(&self, call: u64) -> Vec<Act> {
        script(self.seed ^ call, 12, SEATS)
    }
}
