//! Opens a data directory for reading, also while another process holds it.
//!
//! **Invariant**: nothing in the directory is changed.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use callboard::persist::log::{LogReader, segment_bytes_of};
use callboard::persist::real_disk::RealDisk;

use super::exit::{Failure, UNUSABLE};

/// The journal in `dir`.
pub(crate) fn open(dir: &Path) -> Result<LogReader, Failure> {
    not_a_file(dir)?;
    fs::metadata(dir).map_err(|error| Failure::io("read", dir, &error))?;
    LogReader::open(Arc::new(RealDisk::new(dir))).map_err(|fault| Failure::bus(dir, &fault.into()))
}

/// Whether `dir` may be a data directory: it is one, or is still to be made.
pub(crate) fn not_a_file(dir: &Path) -> Result<(), Failure> {
    let found = dir.ancestors().find_map(|part| Some((part, fs::metadata(part).ok()?)));
    match found {
        Some((part, found)) if !found.is_dir() => {
            let (part, is_below) = (part.display(), part != dir);
            let what =
                if is_below { "so nothing can lie below it" } else { "not a data directory" };
            Err(Failure::new(UNUSABLE, format!("{part} is a file and {what}")))
        }
        Some(_) | None => Ok(()),
    }
}

/// How large the segments of the journal in `dir` are; none where that cannot be told, which the
/// opening then explains.
pub(crate) fn segment_bytes(dir: &Path) -> Option<u64> {
    segment_bytes_of(&RealDisk::new(dir)).ok().flatten()
}
