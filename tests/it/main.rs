//! Scenarios that hold the bus and its archive to their promises.

mod log_basics;
mod log_cleaner;
mod log_crash;
mod log_damage;
mod log_world;
