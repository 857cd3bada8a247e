//! The integration tests, in one binary.

mod search_acts;
mod search_break;
mod search_delivery;
mod search_explore;
mod search_ghost;
mod search_world;
