//! Segment files: where a position lies, which files there are, how they come and go.
//!
//! **Invariant**: a segment file under its final name is whole: filled with zeros, flushed, its
//! name flushed. A position maps to segment `position / segment_bytes`, for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::History;
use crate::persist::disk::{Disk, DiskFile};

/// Where the segments in use lie.
pub(crate) const LOG_DIR: &str = "log";
/// Where freed segments are kept.
pub(crate) const HISTORY_DIR: &str = "history";

/// Files held open at most: the chains of many sessions lead through all segments in use again and
/// again, and 2 GiB of them is more than most logs are.
const OPEN_MAX: usize = 128;
/// Files held open at least. Whoever reads a journal beside the bus holds as many once more, and
/// both fit a process that may have 64 files.
const OPEN_LEAST: usize = 16;
const ZEROS: usize = 1 << 20;

/// Takes a lock whose holders never panic half way through a change.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The segment files of a data directory.
pub(crate) struct Segments {
    disk: Arc<dyn Disk>,
    /// Bytes of a segment.
    pub(crate) size: u64,
    read_only: bool,
    names: Mutex<Names>,
    open: Mutex<BTreeMap<u64, Arc<dyn DiskFile>>>,
    open_max: usize,
    bytes_read: AtomicU64,
}

#[derive(Debug, Default)]
struct Names {
    live: BTreeSet<u64>,
    history: BTreeSet<u64>,
}

/// How many files are held open: an eighth of what the process may have, where the system tells.
fn open_max() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let files = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    files.map_or(OPEN_LEAST, |files| (files / 8).clamp(OPEN_LEAST, OPEN_MAX))
}

impl Segments {
    /// Lists what there is. Leftovers of unfinished preparations are not counted.
    pub(crate) fn list(disk: Arc<dyn Disk>, size: u64, read_only: bool) -> io::Result<Segments> {
        let segments = Segments {
            disk,
            size,
            read_only,
            open_max: open_max(),
            names: Mutex::default(),
            open: Mutex::default(),
            bytes_read: AtomicU64::new(0),
        };
        segments.list_again()?;
        Ok(segments)
    }

    /// Looks again which files there are, and forgets the open ones.
    pub(crate) fn list_again(&self) -> io::Result<()> {
        let live = numbers(&*self.disk, LOG_DIR)?;
        let history = numbers(&*self.disk, HISTORY_DIR)?;
        *lock(&self.names) = Names { live, history };
        lock(&self.open).clear();
        Ok(())
    }

    /// The segment of a position.
    pub(crate) fn of(&self, position: u64) -> u64 {
        position / self.size
    }

    /// The first position of a segment.
    pub(crate) fn start(&self, number: u64) -> u64 {
        number.saturating_mul(self.size)
    }

    /// The segments in use, lowest first, prepared ones among them.
    pub(crate) fn live(&self) -> Vec<u64> {
        lock(&self.names).live.iter().copied().collect()
    }

    /// All segments, in use or kept, lowest first.
    pub(crate) fn all(&self) -> Vec<u64> {
        let names = lock(&self.names);
        names.live.union(&names.history).copied().collect()
    }

    /// The lowest segment from `number` on, in use or kept.
    pub(crate) fn next_from(&self, number: u64) -> Option<u64> {
        let names = lock(&self.names);
        let next = |names: &BTreeSet<u64>| names.range(number..).next().copied();
        [next(&names.live), next(&names.history)].into_iter().flatten().min()
    }

    /// Whether a segment is there, in use or kept.
    pub(crate) fn exists(&self, number: u64) -> bool {
        let names = lock(&self.names);
        names.live.contains(&number) || names.history.contains(&number)
    }

    /// Whether the segment of `position` is in use.
    pub(crate) fn is_live(&self, position: u64) -> bool {
        lock(&self.names).live.contains(&self.of(position))
    }

    /// Bytes read so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Opens a segment, in use or kept.
    pub(crate) fn file(&self, number: u64) -> io::Result<Arc<dyn DiskFile>> {
        let mut open = lock(&self.open);
        if let Some(file) = open.get(&number) {
            return Ok(file.clone());
        }
        let live = lock(&self.names).live.contains(&number);
        let dir = if live { LOG_DIR } else { HISTORY_DIR };
        let file = match self.disk.open(&path(dir, number), self.read_only || !live) {
            // Retired, and not yet moved.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !live => {
                self.disk.open(&path(LOG_DIR, number), true)?
            }
            file => file?,
        };
        let file: Arc<dyn DiskFile> = Arc::from(file);
        if open.len() >= self.open_max {
            // Where a chain ends; those that follow begin at the newest again.
            open.pop_first();
        }
        open.insert(number, file.clone());
        Ok(file)
    }

    /// Reads at a position, within one segment. What the file lacks reads as zeros.
    pub(crate) fn read(&self, position: u64, buffer: &mut [u8]) -> io::Result<()> {
        let file = self.file(self.of(position))?;
        let n = file.read_at(buffer, position % self.size)?;
        if let Some(missing) = buffer.get_mut(n..) {
            missing.fill(0);
        }
        self.bytes_read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Makes a segment ready for use: zeros, flushed, named, the name flushed.
    pub(crate) fn prepare(&self, number: u64) -> io::Result<()> {
        let unfinished = format!("{}.tmp", path(LOG_DIR, number));
        let made = self.fill(&unfinished);
        if let Err(error) = made {
            remove_if_there(&*self.disk, &unfinished)?;
            return Err(error);
        }
        self.disk.rename(&unfinished, &path(LOG_DIR, number))?;
        self.disk.sync_dir(LOG_DIR)?;
        lock(&self.names).live.insert(number);
        Ok(())
    }

    fn fill(&self, path: &str) -> io::Result<()> {
        remove_if_there(&*self.disk, path)?;
        let file = self.disk.create(path)?;
        write_zeros(&*file, 0, self.size)?;
        file.sync()
    }

    /// Removes what unfinished preparations left behind.
    pub(crate) fn sweep(&self) -> io::Result<()> {
        for name in self.disk.list(LOG_DIR)? {
            if name.ends_with(".tmp") {
                self.disk.remove(&format!("{LOG_DIR}/{name}"))?;
            }
        }
        Ok(())
    }

    /// A segment that no replay needs is out of use from now on; its file is still to be freed.
    pub(crate) fn retire(&self, number: u64, history: History) {
        let mut names = lock(&self.names);
        names.live.remove(&number);
        if history == History::Keep {
            names.history.insert(number);
        }
    }

    /// Moves or removes the file of a retired segment; the directories are to be flushed. On an
    /// error the segment is in use again.
    pub(crate) fn free(&self, number: u64, history: History) -> io::Result<()> {
        let from = path(LOG_DIR, number);
        let freed = match history {
            History::Keep => self.disk.rename(&from, &path(HISTORY_DIR, number)),
            History::Drop => self.disk.remove(&from),
        };
        if freed.is_err() {
            let mut names = lock(&self.names);
            names.history.remove(&number);
            names.live.insert(number);
        }
        lock(&self.open).remove(&number);
        freed
    }
}

/// Writes all of `bytes`, going on after short writes.
pub(crate) fn write_all(file: &dyn DiskFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    write_counted(file, bytes, offset, &mut 0)
}

/// As [`write_all`]; `done` counts the bytes that were written.
pub(crate) fn write_counted(
    file: &dyn DiskFile,
    bytes: &[u8],
    offset: u64,
    done: &mut usize,
) -> io::Result<()> {
    while let Some(rest) = bytes.get(*done..)
        && !rest.is_empty()
    {
        match file.write_at(rest, offset + *done as u64) {
            Ok(0) => return Err(io::ErrorKind::StorageFull.into()),
            Ok(n) => *done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes `len` zeros.
pub(crate) fn write_zeros(file: &dyn DiskFile, offset: u64, len: u64) -> io::Result<()> {
    let zeros = vec![0; ZEROS.min(len as usize)];
    let mut done = 0;
    while done < len {
        let n = (len - done).min(ZEROS as u64);
        write_all(file, zeros.get(..n as usize).unwrap_or_default(), offset + done)?;
        done += n;
    }
    Ok(())
}

/// Removes a file unless it is missing.
pub(crate) fn remove_if_there(disk: &dyn Disk, path: &str) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn path(dir: &str, number: u64) -> String {
    format!("{dir}/{number:016x}")
}

fn numbers(disk: &dyn Disk, dir: &str) -> io::Result<BTreeSet<u64>> {
    let names = match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        names => names?,
    };
    let number =
        |name: String| (name.len() == 16).then(|| u64::from_str_radix(&name, 16).ok()).flatten();
    Ok(names.into_iter().filter_map(number).collect())
}
