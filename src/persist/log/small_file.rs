//! Small files that are replaced as a whole: written aside, flushed, renamed, the name flushed.
//!
//! **Invariant**: under the final name lies the old content or the new, never a mixture.

use std::io;

use super::bytes::Reading;
use super::meta::unknown_version;
use super::segment::{remove_if_there, write_all};
use crate::error::Fault;
use crate::persist::disk::{Disk, DiskFile};

/// The most bytes gathered before they are written.
const PIECE: usize = 1 << 20;

/// A file being written aside.
pub(crate) struct Replacement {
    file: Box<dyn DiskFile>,
    buffer: Vec<u8>,
    written: u64,
    crc: u32,
}

impl Replacement {
    fn begin(disk: &dyn Disk, aside: &str) -> io::Result<Self> {
        remove_if_there(disk, aside)?;
        let file = disk.create(aside)?;
        Ok(Replacement { file, buffer: Vec::new(), written: 0, crc: 0 })
    }

    /// Appends bytes.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() < PIECE {
            return Ok(());
        }
        self.write_out()
    }

    fn write_out(&mut self) -> io::Result<()> {
        self.crc = crc32c::crc32c_append(self.crc, &self.buffer);
        write_all(&*self.file, &self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        self.write_out()?;
        let crc = self.crc.to_le_bytes();
        write_all(&*self.file, &crc, self.written)?;
        self.file.sync()
    }
}

/// Replaces the file `name` of the data directory by what `content` puts, followed by the
/// checksum of all of it.
pub(crate) fn replace(
    disk: &dyn Disk,
    name: &str,
    content: impl FnOnce(&mut Replacement) -> io::Result<()>,
) -> io::Result<()> {
    let aside = format!("{name}.tmp");
    let mut file = Replacement::begin(disk, &aside)?;
    let done = content(&mut file).and_then(|()| file.finish());
    if let Err(error) = done {
        remove_if_there(disk, &aside)?;
        return Err(error);
    }
    disk.rename(&aside, name)?;
    disk.sync_dir("")
}

/// What is found under a name.
pub(crate) enum Content {
    /// No such file.
    Missing,
    /// The checksum does not hold.
    Damaged,
    /// What was put.
    Whole(Vec<u8>),
}

/// Reads a file that [`replace`] wrote.
pub(crate) fn read(disk: &dyn Disk, name: &str) -> io::Result<Content> {
    let file = match disk.open(name, true) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::Missing),
        file => file?,
    };
    let mut bytes = vec![0; file.len()? as usize];
    let n = file.read_at(&mut bytes, 0)?;
    bytes.truncate(n);
    let Some((content, crc)) = bytes.split_last_chunk::<4>() else {
        return Ok(Content::Damaged);
    };
    if crc32c::crc32c(content) != u32::from_le_bytes(*crc) {
        return Ok(Content::Damaged);
    }
    let whole = content.len();
    bytes.truncate(whole);
    Ok(Content::Whole(bytes))
}

/// Reads on behind the magic and the version that such a file begins with; `None` for another
/// file's magic.
///
/// # Errors
/// `JOURNAL_VERSION` for another version.
pub(crate) fn opened<const N: usize>(
    content: &[u8],
    magic: [u8; N],
    version: u32,
) -> Result<Option<Reading<'_>>, Fault> {
    let mut reading = Reading::new(content);
    if reading.array() != Some(magic) {
        return Ok(None);
    }
    match reading.u32() {
        Some(found) if found == version => Ok(Some(reading)),
        Some(other) => Err(unknown_version(other)),
        None => Ok(None),
    }
}
