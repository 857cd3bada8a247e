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
    fs::metadata(dir).map_err(|error| Failure::io("read", dir, &error))?;
    not_a_file(dir)?;
    LogReader::open(Arc::new(RealDisk::new(dir))).map_err(|fault| Failure::bus(dir, &fault.into()))
}

/// Whether `dir` may be a data directory: it is one, or is still to be made.
pub(crate) fn not_a_file(dir: &Path) -> Result<(), Failure> {
    match fs::metadata(dir) {
        Ok(found) if !found.is_dir() => {
            let text = format!("{} is a file and not a data directory", dir.display());
            Err(Failure::new(UNUSABLE, text))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}
