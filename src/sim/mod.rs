//! Runs on a bus of their own: traces that are replayed, scenarios, loads, and what is said of
//! them.
//!
//! **Invariant**: what a replay or a scenario sends is known from its trace or scenario and the
//! journals alone, so a run that was killed goes on where it stopped and sends nothing twice.

mod crowd;
pub mod generate;
pub mod limit;
pub mod load;
pub mod meter;
pub mod profile;
pub mod replay;
pub mod run;
pub mod runner;
pub mod scenario;
mod scenario_check;
mod scenario_words;
mod schedule;
mod seats;
pub mod summary;
pub mod trace;
