//! Scenarios that hold the bus and its archive to their promises, and the rules of the house.

mod golden;
mod tidy;
//! Scenarios that hold the bus and its archive to their promises.

mod log_basics;
mod log_world;
