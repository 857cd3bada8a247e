//! Scenarios that hold the bus and its archive to their promises.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod chance;
mod disks;

mod log_basics;
mod log_world;
