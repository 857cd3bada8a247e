//! Opens a data directory for reading, also while another process holds it.
//!
//! **Invariant**: nothing in the directory is changed.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use callboard::persist::log::LogReader;
use callboard::persist::real_disk::RealDisk;

use super::exit::{Failure, UNUSABLE};

/// The journal in `dir`.
pub(crate) fn open(dir: &Path) -> Result<LogReader, Failure> {
    let found = fs::metadata(dir).map_err(|error| Failure::io("read", dir, &error))?;
    if !found.is_dir() {
        let text = format!("{} is a file and not a data directory", dir.display());
        return Err(Failure::new(UNUSABLE, text));
    }
    LogReader::open(Arc::new(RealDisk::new(dir))).map_err(|fault| Failure::bus(dir, &fault.into()))
}
