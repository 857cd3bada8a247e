#![doc = include_str!("../README.md")]

#[cfg(panic = "abort")]
compile_error!("callboard catches the panics of agents and needs panic = \"unwind\"");

// What users need of it is re-exported by `bus`.
#[doc(hidden)]
pub mod actors;
pub mod agents;
pub mod bus;
pub mod config;
pub mod error;
pub mod persist;
pub mod protocol;
#[cfg(feature = "cli")]
pub mod sim;

pub use config::{Config, Durability};
pub use error::{Code, Ended, Error, Fault, Refused};
