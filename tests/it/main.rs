//! Scenarios that hold the bus and its archive to their promises.
