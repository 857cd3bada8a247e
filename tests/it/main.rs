//! Scenarios that hold the bus and its archive to their promises.
//! The one integration binary: scenarios in, transcripts out, and the rules of the house.

mod tidy;
