//! The bytes of one simulated file: as every reader sees them, and as a power loss may leave them.
//!
//! **Invariant**: `flushed` changes by a flush, a crash or damage only.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::power::Unflushed;

pub(super) const SECTOR: usize = 512;
/// Versions of one sector that a crash may choose from; the oldest go first.
const VERSIONS_MAX: usize = 6;

#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    now: Arc<Vec<u8>>,
    flushed: Arc<Vec<u8>>,
    sectors: BTreeMap<usize, Sector>,
    lengths: Vec<usize>,
}

/// A sector that was written since its last flush.
#[derive(Debug, Clone, Default)]
struct Sector {
    versions: Vec<[u8; SECTOR]>,
    /// A flush of it failed: the cache shows it, and later flushes take it for clean.
    forgotten: bool,
}

impl Content {
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        let bytes = Arc::new(bytes);
        Content { now: Arc::clone(&bytes), flushed: bytes, ..Content::default() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.now
    }

    pub(super) fn is_clean(&self) -> bool {
        self.sectors.is_empty() && self.lengths.is_empty()
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: usize) -> usize {
        let bytes = self.now.get(offset..).unwrap_or_default();
        let n_read = bytes.len().min(buffer.len());
        put(buffer, 0, bytes.get(..n_read).unwrap_or_default());
        n_read
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: usize) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        if end > self.now.len() {
            self.set_len(end);
        }
        put(Arc::make_mut(&mut self.now).as_mut_slice(), offset, bytes);
        for number in offset / SECTOR..end.div_ceil(SECTOR) {
            self.note(number);
        }
    }

    pub(super) fn set_len(&mut self, len: usize) {
        let before = self.now.len();
        if len == before {
            return;
        }
        Arc::make_mut(&mut self.now).resize(len, 0);
        self.lengths.push(len);
        // What grows back over bytes that the platter still holds reads as zeros.
        for number in before / SECTOR..len.div_ceil(SECTOR) {
            if number * SECTOR < self.flushed.len() || self.sectors.contains_key(&number) {
                self.note(number);
            }
        }
    }

    fn note(&mut self, number: usize) {
        let version = sector_of(&self.now, number);
        let sector = self.sectors.entry(number).or_default();
        sector.forgotten = false;
        if sector.versions.len() == VERSIONS_MAX {
            sector.versions.remove(0);
        }
        sector.versions.push(version);
    }

    pub(super) fn flush(&mut self) {
        let flushed = Arc::make_mut(&mut self.flushed);
        flushed.resize(self.now.len(), 0);
        self.sectors.retain(|number, sector| {
            if let (false, Some(version)) = (sector.forgotten, sector.versions.last()) {
                put(flushed, number * SECTOR, version);
            }
            sector.forgotten
        });
        self.lengths.clear();
    }

    /// A flush that failed: what was to be flushed may or may not be on the platter, and will not
    /// be tried again.
    pub(super) fn forget(&mut self) {
        self.sectors.values_mut().for_each(|sector| sector.forgotten = true);
    }

    /// What a power loss leaves, by `choose`: 0 is what was flushed, `k` the k-th version since.
    pub(super) fn lose(&mut self, path: &str, choose: &mut dyn FnMut(&Unflushed<'_>) -> usize) {
        if self.is_clean() {
            self.now = Arc::clone(&self.flushed);
            return;
        }
        let mut left = self.flushed.as_ref().clone();
        let versions = self.lengths.len();
        let mut len = left.len();
        if versions > 0 {
            let choice = choose(&Unflushed::Length { path, versions }).min(versions);
            len = choice.checked_sub(1).and_then(|k| self.lengths.get(k)).map_or(len, |len| *len);
        }
        for (number, sector) in &self.sectors {
            let (number, versions) = (*number, sector.versions.len());
            let choice = choose(&Unflushed::Sector { path, number, versions }).min(versions);
            if let Some(version) = choice.checked_sub(1).and_then(|k| sector.versions.get(k)) {
                let end = (number + 1) * SECTOR;
                if left.len() < end {
                    left.resize(end, 0);
                }
                put(&mut left, number * SECTOR, version);
            }
        }
        left.resize(len, 0);
        *self = Content::durable(left);
    }

    /// Changes the bytes in the cache and on the platter alike, as damage does.
    pub(super) fn damage(&mut self, change: impl Fn(&mut Vec<u8>)) {
        change(Arc::make_mut(&mut self.now));
        change(Arc::make_mut(&mut self.flushed));
        for (number, sector) in &mut self.sectors {
            if let Some(version) = sector.versions.last_mut() {
                *version = sector_of(&self.now, *number);
            }
        }
    }
}

fn sector_of(bytes: &[u8], number: usize) -> [u8; SECTOR] {
    let mut sector = [0; SECTOR];
    let start = (number * SECTOR).min(bytes.len());
    let end = (start + SECTOR).min(bytes.len());
    put(&mut sector, 0, bytes.get(start..end).unwrap_or_default());
    sector
}

/// Copies as much of `bytes` as fits behind `offset`.
fn put(target: &mut [u8], offset: usize, bytes: &[u8]) {
    let target = target.get_mut(offset..).unwrap_or_default();
    let n = target.len().min(bytes.len());
    if let (Some(target), Some(bytes)) = (target.get_mut(..n), bytes.get(..n)) {
        target.copy_from_slice(bytes);
    }
}
