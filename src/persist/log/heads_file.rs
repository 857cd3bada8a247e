//! `heads`: the saved heads, a cache that keeps start-up short.
//!
//! **Invariant**: it holds nothing that is not on disk in the log, and everything below the
//! position it covers.

use std::io;

use super::bytes::{Reading, put_u32, put_u64};
use super::group::VERSION;
use super::heads::{Attempt, Entry};
use super::meta::unusable;
use super::small_file::{Content, Replacement, opened, read, replace};
use crate::error::Fault;
use crate::persist::disk::Disk;
use crate::protocol::SessionId;

/// The file's name.
pub(crate) const HEADS: &str = "heads";
/// Bytes of one session in it.
pub(crate) const ENTRY: u64 = 60;

const MAGIC: [u8; 8] = *b"\xff\0cbhead";
const PENDING: u32 = 1;
const QUARANTINED: u32 = 2;

/// A group that is known to be on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastGroup {
    pub(crate) position: u64,
    pub(crate) number: u64,
    pub(crate) run: u64,
}

/// The heads as they are saved.
#[derive(Debug, Clone)]
pub(crate) struct SavedHeads {
    /// Everything below is covered, and was on disk when they were saved.
    pub(crate) position: u64,
    pub(crate) last: LastGroup,
    pub(crate) entries: Vec<Entry>,
    pub(crate) attempts: Vec<(SessionId, Attempt)>,
}

impl SavedHeads {
    /// Writes them, durably.
    pub(crate) fn write(&self, disk: &dyn Disk) -> io::Result<()> {
        replace(disk, HEADS, |file| self.put(file))
    }

    fn put(&self, file: &mut Replacement) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        put_u32(&mut bytes, VERSION);
        put_u64(&mut bytes, self.position);
        put_u64(&mut bytes, self.last.position);
        put_u64(&mut bytes, self.last.number);
        put_u64(&mut bytes, self.last.run);
        put_u64(&mut bytes, self.entries.len() as u64);
        put_u64(&mut bytes, self.attempts.len() as u64);
        file.put(&bytes)?;
        for entry in &self.entries {
            bytes.clear();
            put_entry(&mut bytes, entry);
            file.put(&bytes)?;
        }
        for (session, attempt) in &self.attempts {
            bytes.clear();
            put_attempt(&mut bytes, *session, attempt);
            file.put(&bytes)?;
        }
        Ok(())
    }

    /// Reads them; `None` when they are missing or damaged.
    ///
    /// # Errors
    /// `JOURNAL_VERSION` if a newer program wrote them, `STORE_UNUSABLE` if they cannot be read.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<SavedHeads>, Fault> {
        let content = read(disk, HEADS).map_err(|error| unusable("read the heads", &error))?;
        let Content::Whole(bytes) = content else { return Ok(None) };
        let opened = opened(&bytes, MAGIC, VERSION)?;
        Ok(opened.and_then(|mut reading| take(&mut reading)))
    }
}

fn take(reading: &mut Reading<'_>) -> Option<SavedHeads> {
    let position = reading.u64()?;
    let last = LastGroup { position: reading.u64()?, number: reading.u64()?, run: reading.u64()? };
    let (n_entries, n_attempts) = (reading.u64()?, reading.u64()?);
    let entries = (0..n_entries).map(|_| take_entry(reading)).collect::<Option<_>>()?;
    let attempts = (0..n_attempts).map(|_| take_attempt(reading)).collect::<Option<_>>()?;
    Some(SavedHeads { position, last, entries, attempts })
}

fn put_entry(bytes: &mut Vec<u8>, entry: &Entry) {
    bytes.extend_from_slice(&entry.session.to_bytes());
    put_u64(bytes, entry.position);
    put_u64(bytes, entry.low);
    put_u64(bytes, entry.snapshot);
    put_u64(bytes, entry.as_of);
    put_u64(bytes, entry.bytes);
    let pending = if entry.pending { PENDING } else { 0 };
    put_u32(bytes, pending | if entry.quarantined { QUARANTINED } else { 0 });
}

fn take_entry(reading: &mut Reading<'_>) -> Option<Entry> {
    let session = reading.session()?;
    let (position, low) = (reading.u64()?, reading.u64()?);
    let (snapshot, as_of, bytes) = (reading.u64()?, reading.u64()?, reading.u64()?);
    let flags = reading.u32()?;
    let (pending, quarantined) = (flags & PENDING != 0, flags & QUARANTINED != 0);
    Some(Entry { session, position, low, snapshot, as_of, bytes, pending, quarantined })
}

fn put_attempt(bytes: &mut Vec<u8>, session: SessionId, attempt: &Attempt) {
    bytes.extend_from_slice(&session.to_bytes());
    put_u64(bytes, attempt.as_of);
    put_u64(bytes, attempt.first);
    put_u32(bytes, attempt.next);
    put_u64(bytes, attempt.bytes);
}

fn take_attempt(reading: &mut Reading<'_>) -> Option<(SessionId, Attempt)> {
    let session = reading.session()?;
    let (as_of, first) = (reading.u64()?, reading.u64()?);
    let (next, bytes) = (reading.u32()?, reading.u64()?);
    Some((session, Attempt { as_of, first, next, bytes }))
}

#[cfg(test)]
mod tests {
    use super::super::heads::Heads;
    use super::*;
    use crate::persist::RealDisk;

    fn saved(n_sessions: u64) -> SavedHeads {
        let entries = (0..n_sessions).map(|n| Entry {
            session: SessionId::from_bytes((u128::from(n) << 64 | 7).to_le_bytes()),
            position: 68 + n * 100,
            low: 68,
            snapshot: n % 3,
            as_of: n % 5,
            bytes: n,
            pending: n % 2 == 0,
            quarantined: n % 7 == 0,
        });
        let attempt = Attempt { as_of: 9, first: 10, next: 2, bytes: 300 };
        SavedHeads {
            position: 4_096 * n_sessions,
            last: LastGroup { position: 4_096, number: 5, run: 6 },
            attempts: vec![(SessionId::from_bytes((7_u128).to_le_bytes()), attempt)],
            entries: entries.collect(),
        }
    }

    #[test]
    fn heads_read_back_as_they_were_saved() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::new(dir.path());
        let n = 20_000;
        let before = saved(n);
        before.write(&disk).unwrap();
        let after = SavedHeads::read(&disk).unwrap().unwrap();
        assert_eq!(after.entries, before.entries);
        assert_eq!(after.attempts, before.attempts);
        assert_eq!((after.position, after.last), (before.position, before.last));
        let heads = Heads::import(after.entries, after.attempts);
        assert_eq!(heads.len() as u64, n);
        let len = disk_len(&disk);
        assert_eq!(len, 60 + n * ENTRY + 44 + 4, "docs/journal.md says how long it is");
    }

    fn disk_len(disk: &dyn Disk) -> u64 {
        disk.open(HEADS, true).unwrap().len().unwrap()
    }
}
