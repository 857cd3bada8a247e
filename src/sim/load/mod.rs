//! Load: many sessions that send at a rate, or as fast as they are handled, and what that took.
//!
//! **Invariant**: a latency begins at the moment a message was meant to be sent, whatever held its
//! sender up; what was lost or doubled is read from the journals, not from what the clients think.

mod order;
mod pacer;
mod pairs;
pub mod plan;

mod desk;
mod gauge;
mod series;

mod clients;
mod crew;

mod count;
mod machine;

mod apart;
mod child;
mod here;
mod pipe;
mod run;

pub mod report;
mod table;
pub mod threshold;

mod chart;
mod csv;
mod hgrm;
mod page;

pub use child::serve as serve_child;
pub use pairs::Pairs;
pub use plan::{Plan, Span};
pub use report::Report;
pub use run::{LoadEnd, LoadError, Program, load};
pub use threshold::Threshold;
