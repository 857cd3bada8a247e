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
