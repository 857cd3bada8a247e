//! The archive: bytes and files, and the thread that commits them.
//!
//! **Boundary**: no policy and no actor in here. A payload is opaque; what it means is the law's.

pub mod disk;
pub mod log;
pub mod memory;
pub mod real_disk;
pub mod sim_disk;
pub mod store;

pub use disk::{Disk, DiskFile};
pub use log::{LogReader, LogStore};
pub use memory::MemoryStore;
pub use real_disk::RealDisk;
pub use sim_disk::SimDisk;
pub use store::Store;
