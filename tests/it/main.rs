//! Scenarios that hold the bus and its archive to their promises.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod archive;
mod chance;
mod crash_faults;
mod crash_lock;
mod crash_names;
mod crash_power;
mod crash_reader;
mod crash_recovery;
mod crash_rot;
mod disks;
mod script;
mod truth;
mod workload;
mod writer;

mod log_basics;
mod log_cleaner;
mod log_crash;
mod log_damage;
mod log_golden;
mod log_reader;
mod log_threads;
mod log_world;
