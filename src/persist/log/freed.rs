//! `freed`: which segments were freed, so that one that was lost is not taken for one of them.
//!
//! **Invariant**: a segment is in it, on disk, before its file leaves the log. Damaged or missing
//! it says nothing: gaps between the segments are taken for freed ones then.

use std::io;

use super::bytes::{Reading, put_u32, put_u64};
use super::group::VERSION;
use super::meta::unusable;
use super::segment::Segments;
use super::small_file::{Content, opened, read, replace};
use crate::error::Fault;
use crate::persist::disk::Disk;

/// The file's name.
pub(crate) const FREED: &str = "freed";

const MAGIC: [u8; 8] = *b"\xff\0cbfree";

/// Segments below the log's end that are not in use, as ranges: the first, and the next in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Freed {
    ranges: Vec<(u64, u64)>,
}

impl Freed {
    /// What is missing between segments in use, lowest first, as long as these are all.
    pub(crate) fn around(in_use: impl IntoIterator<Item = u64>) -> Self {
        let mut next = 0;
        let gap = |number| {
            let first = std::mem::replace(&mut next, number + 1);
            (first < number).then_some((first, number))
        };
        Freed { ranges: in_use.into_iter().filter_map(gap).collect() }
    }

    /// The first segment from `from` on that is neither in use nor freed, where a later one is in
    /// use.
    pub(crate) fn first_lost(&self, in_use: &[u64], from: u64) -> Option<u64> {
        let mut next = from;
        for &number in in_use.iter().filter(|number| **number >= from) {
            let known =
                |at| self.ranges.iter().find(|(first, after)| (*first..*after).contains(&at));
            while next < number {
                let Some((_, after)) = known(next) else { return Some(next) };
                next = *after;
            }
            next = next.max(number + 1);
        }
        None
    }

    /// Writes it, durably.
    pub(crate) fn write(&self, disk: &dyn Disk) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        put_u32(&mut bytes, VERSION);
        put_u64(&mut bytes, self.ranges.len() as u64);
        for (first, after) in &self.ranges {
            put_u64(&mut bytes, *first);
            put_u64(&mut bytes, *after);
        }
        replace(disk, FREED, |file| file.put(&bytes))
    }

    /// Reads it; `None` when it is missing or damaged.
    ///
    /// # Errors
    /// `JOURNAL_VERSION` if a newer program wrote it, `STORE_UNUSABLE` if it cannot be read.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Freed>, Fault> {
        let content =
            read(disk, FREED).map_err(|error| unusable("read which segments are freed", &error))?;
        let Content::Whole(bytes) = content else { return Ok(None) };
        let opened = opened(&bytes, MAGIC, VERSION)?;
        Ok(opened.and_then(|mut reading| take(&mut reading)))
    }
}

fn take(reading: &mut Reading<'_>) -> Option<Freed> {
    let n = reading.u64()?;
    let ranges = (0..n).map(|_| Some((reading.u64()?, reading.u64()?))).collect::<Option<_>>()?;
    Some(Freed { ranges })
}

/// Where the first segment in `[from, to)` lost something: its end, or all of it. Segments get
/// their names at full length, and those that were freed are known.
pub(crate) fn first_loss(
    disk: &dyn Disk,
    segments: &Segments,
    (from, to): (u64, u64),
) -> Result<Option<u64>, Fault> {
    // Listed before the record is read: whatever is freed meanwhile is in the record.
    let in_use: Vec<u64> = segments.live().into_iter().filter(|number| *number < to).collect();
    let freed = Freed::read(disk)?;
    let lost = freed.and_then(|freed| freed.first_lost(&in_use, from));
    let mut losses: Vec<u64> = lost.map(|number| segments.start(number)).into_iter().collect();
    for number in in_use.into_iter().filter(|number| *number >= from) {
        let len = match segments.file(number).and_then(|file| file.len()) {
            // It was freed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            len => len.map_err(|error| unusable("read the log", &error))?,
        };
        if len < segments.size {
            losses.push(segments.start(number) + len);
            break;
        }
    }
    Ok(losses.into_iter().min())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persist::SimDisk;

    #[test]
    fn gaps_are_known_and_anything_else_is_lost() {
        let freed = Freed::around([2, 3, 7, 9]);
        assert_eq!(freed.ranges, [(0, 2), (4, 7), (8, 9)]);
        assert_eq!(freed.first_lost(&[2, 3, 7, 9], 0), None);
        assert_eq!(freed.first_lost(&[2, 7, 9, 10], 0), Some(3));
        assert_eq!(freed.first_lost(&[2, 3, 9], 0), Some(7));
        assert_eq!(freed.first_lost(&[2, 3, 9], 8), None);
        assert_eq!(freed.first_lost(&[3], 0), Some(2));
        assert_eq!(freed.first_lost(&[2, 3, 4, 7, 9], 0), None, "recorded and not yet freed");
        assert_eq!(Freed::default().first_lost(&[], 0), None);
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let disk = SimDisk::new();
        disk.make_dir("").unwrap();
        assert_eq!(Freed::read(&disk).unwrap(), None);
        let freed = Freed::around([2, 3, 7]);
        freed.write(&disk).unwrap();
        assert_eq!(Freed::read(&disk).unwrap(), Some(freed));
    }
}
