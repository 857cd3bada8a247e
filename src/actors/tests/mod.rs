//! Scenarios over the data path alone, with a supervisor that allows what it is told to.

mod agents;
mod flaky;
mod journal;
mod mail;
mod town;
