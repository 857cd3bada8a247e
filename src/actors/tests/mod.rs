//! Scenarios over the data path alone, with a supervisor that allows what it is told to.

mod mail;
mod town;
