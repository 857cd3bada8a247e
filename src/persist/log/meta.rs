//! `store.meta`: which format a data directory has.
//!
//! **Invariant**: written once, before the first segment. A directory with segments and without a
//! sound `store.meta` is refused and left as it is.

use std::io;

use super::bytes::{Reading, put_u32, put_u64};
use super::group::VERSION;
use super::small_file::{Content, read, replace};
use crate::error::{Code, Fault};
use crate::persist::disk::Disk;

/// The file's name.
pub(crate) const META: &str = "store.meta";

const MAGIC: [u8; 8] = *b"\xff\0cbmeta";

/// What a data directory says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) segment_bytes: u64,
}

impl Meta {
    fn encode(self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        put_u32(&mut bytes, VERSION);
        put_u64(&mut bytes, self.segment_bytes);
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Meta, Fault> {
        let mut reading = Reading::new(bytes);
        let damaged = || corrupt("store.meta is no description of a data directory");
        if reading.array().ok_or_else(damaged)? != MAGIC {
            return Err(damaged());
        }
        let version = reading.u32().ok_or_else(damaged)?;
        if version != VERSION {
            return Err(unknown_version(version));
        }
        let segment_bytes = reading.u64().ok_or_else(damaged)?;
        if segment_bytes == 0 || !segment_bytes.is_multiple_of(4_096) {
            return Err(damaged());
        }
        Ok(Meta { segment_bytes })
    }

    /// Reads it; `None` for a directory without one.
    ///
    /// # Errors
    /// `JOURNAL_CORRUPT` if it is damaged, `JOURNAL_VERSION` if a newer program wrote it,
    /// `STORE_UNUSABLE` if it cannot be read.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Meta>, Fault> {
        match read(disk, META).map_err(|error| unusable("read store.meta", &error))? {
            Content::Missing => Ok(None),
            Content::Damaged => Err(corrupt("store.meta is damaged; restore it from a copy")),
            Content::Whole(bytes) => Meta::decode(&bytes).map(Some),
        }
    }

    /// Writes it, durably.
    pub(crate) fn write(self, disk: &dyn Disk) -> io::Result<()> {
        replace(disk, META, |file| file.put(&self.encode()))
    }
}

/// How long the segments of the journal on this disk are; none where there is no journal yet.
///
/// # Errors
/// As a reader's opening.
pub fn segment_bytes_of(disk: &dyn Disk) -> Result<Option<u64>, Fault> {
    Ok(Meta::read(disk)?.map(|meta| meta.segment_bytes))
}

/// The journal is damaged.
pub(crate) fn corrupt(text: impl Into<String>) -> Fault {
    Fault::new(Code::JournalCorrupt, text)
}

/// The journal was written by a newer program.
pub(crate) fn unknown_version(version: u32) -> Fault {
    Fault::new(
        Code::JournalVersion,
        format!("the journal has version {version} and this program knows version {VERSION}"),
    )
}

/// The disk said no; the code tells a full disk and a read-only one apart from others.
pub(crate) fn unusable(what: &str, error: &io::Error) -> Fault {
    let code = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Code::StoreFull,
        io::ErrorKind::ReadOnlyFilesystem => Code::StoreReadOnly,
        _ => Code::StoreUnusable,
    };
    Fault::new(code, format!("cannot {what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_says_what_it_said() {
        let meta = Meta { segment_bytes: 8_192 };
        assert_eq!(Meta::decode(&meta.encode()), Ok(meta));
    }

    #[test]
    fn m51_an_unknown_version_is_refused() {
        let mut bytes = Meta { segment_bytes: 8_192 }.encode();
        bytes[8] = 2;
        assert_eq!(Meta::decode(&bytes).unwrap_err().code, Code::JournalVersion);
    }
}
