//! Scenarios that hold the bus and its archive to their promises, and the rules of the house.

mod golden;
mod tidy;
//! Scenarios that hold the bus and its archive to their promises.

mod log_basics;
mod log_world;
//! The integration tests, in one binary.

mod search_acts;
mod search_break;
mod search_delivery;
mod search_explore;
mod search_ghost;
mod search_world;
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod chance;
mod disks;
