//! A disk in memory that loses what a real one may lose, and fails where it is told to.
//!
//! **Invariant**: the same calls with the same seeds give the same bytes; a sector, length or name
//! that a flush covered survives every crash, unless that flush was told to lie.
//!
//! What a crash may leave is wider than what one file system does: each 512-byte sector, length
//! and name written since its last flush may be old or new by itself, also in a version that was
//! written over meanwhile. Only a rename is kept from losing its file: the new name is there before
//! the old one goes. Directories are flushed as they are made, as the real disk does it.

mod content;
mod disk;
mod faults;
mod names;
mod power;
#[cfg(test)]
mod tests;

pub use disk::SimDisk;
pub use faults::{CallKind, DiskFault};
pub use power::{DiskImage, Unflushed};
