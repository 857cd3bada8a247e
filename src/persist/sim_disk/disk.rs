//! The simulated disk itself: its calls, and the switches a test turns.
//!
//! **Invariant**: a call by a process that was killed or lost power fails, counts for nothing and
//! changes nothing.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::content::Content;
use super::faults::{self, CallKind, DiskFault, Faults, Verdict};
use super::names::{Inode, Names, dir_of};
use crate::persist::disk::{Disk, DiskFile};

/// A disk in memory. A clone is the same disk, seen by the same process; after a
/// [`crash`](SimDisk::crash) or a [`kill`](SimDisk::kill) the next process uses the handle which
/// that gives, and the old handles and files only fail. Switches, counters and damage work through
/// every handle.
#[derive(Clone)]
pub struct SimDisk {
    pub(super) shared: Arc<Mutex<State>>,
    pub(super) boot: u64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) names: Names,
    pub(super) inodes: BTreeMap<Inode, Node>,
    pub(super) locks: BTreeMap<Inode, u64>,
    pub(super) faults: Faults,
    /// Which process may use the disk.
    pub(super) boot: u64,
    pub(super) n_made: u64,
}

#[derive(Default)]
pub(super) struct Node {
    pub(super) content: Content,
    pub(super) n_open: usize,
}

impl Default for SimDisk {
    fn default() -> Self {
        SimDisk::new()
    }
}

impl SimDisk {
    /// An empty disk without limits or faults, and without the data directory.
    pub fn new() -> Self {
        SimDisk { shared: Arc::default(), boot: 0 }
    }

    /// Calls made so far, failed ones too.
    pub fn calls(&self) -> u64 {
        self.state().faults.n_calls()
    }

    /// Calls of one kind made so far.
    pub fn calls_of(&self, kind: CallKind) -> u64 {
        self.state().faults.n_of_kind(kind)
    }

    /// Makes call number `call`, as [`SimDisk::calls`] will count it, fail.
    pub fn fail_call(&self, call: u64, fault: DiskFault) {
        self.state().faults.arm_call(call, fault);
    }

    /// Makes the `n`-th call of a kind, as [`SimDisk::calls_of`] will count it, fail.
    pub fn fail_kind(&self, kind: CallKind, n: u64, fault: DiskFault) {
        self.state().faults.arm_kind(kind, n, fault);
    }

    /// Makes every call from number `call` on fail and do nothing: the crash point. `None` lifts
    /// it.
    pub fn stop_at(&self, call: Option<u64>) {
        self.state().faults.stop_at(call);
    }

    /// The first call that [`SimDisk::stop_at`] stopped, in words.
    pub fn stopped(&self) -> Option<String> {
        self.state().faults.stopped().map(str::to_owned)
    }

    /// Makes flushes say that they are done and do nothing.
    pub fn set_lying_flush(&self, lying: bool) {
        self.state().faults.lying = lying;
    }

    /// Makes every change fail with `EROFS`.
    pub fn set_read_only(&self, read_only: bool) {
        self.state().faults.read_only = read_only;
    }

    /// Bounds the sum of all files' lengths, in bytes; a write stores what fits.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().faults.capacity = bytes;
    }

    /// The sum of all files' lengths, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared)
    }

    fn enter(
        &self,
        kind: CallKind,
        what: &dyn Fn() -> String,
    ) -> io::Result<(MutexGuard<'_, State>, Verdict)> {
        enter(&self.shared, self.boot, kind, what)
    }

    fn file(&self, state: &mut State, path: &str, inode: Inode) -> SimFile {
        state.inodes.entry(inode).or_default().n_open += 1;
        let (shared, path) = (Arc::clone(&self.shared), path.to_owned());
        SimFile { shared, boot: self.boot, path, inode, read_only: false, lock: None }
    }
}

fn lock(shared: &Mutex<State>) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn enter<'a>(
    shared: &'a Mutex<State>,
    boot: u64,
    kind: CallKind,
    what: &dyn Fn() -> String,
) -> io::Result<(MutexGuard<'a, State>, Verdict)> {
    let mut state = lock(shared);
    if state.boot != boot {
        return Err(io::Error::other("this process lost the disk"));
    }
    match state.faults.meet(kind, &|| format!("{kind:?} {}", what())) {
        Verdict::Fail(error) => Err(error),
        verdict => Ok((state, verdict)),
    }
}

impl State {
    pub(super) fn used_bytes(&self) -> u64 {
        self.inodes.values().map(|node| node.content.bytes().len() as u64).sum()
    }

    pub(super) fn new_number(&mut self) -> u64 {
        self.n_made += 1;
        self.n_made
    }

    fn room(&self) -> u64 {
        self.faults.capacity.map_or(u64::MAX, |most| most.saturating_sub(self.used_bytes()))
    }

    /// Gives the room of removed files back once nothing can bring their names back.
    fn collect(&mut self) {
        let held = self.names.held();
        self.inodes.retain(|inode, node| node.n_open > 0 || held.contains(inode));
    }

    fn node(&mut self, inode: Inode) -> io::Result<&mut Node> {
        self.inodes.get_mut(&inode).ok_or_else(|| missing("file"))
    }
}

fn missing(what: &str) -> io::Error {
    io::Error::new(ErrorKind::NotFound, format!("no such {what}"))
}

impl Disk for SimDisk {
    fn make_dir(&self, dir: &str) -> io::Result<()> {
        let (mut state, _) = self.enter(CallKind::MakeDir, &|| dir.to_owned())?;
        if state.faults.read_only && !state.names.has_dir(dir) {
            return Err(faults::read_only());
        }
        state.names.make_dir(dir);
        Ok(())
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let (state, _) = self.enter(CallKind::List, &|| dir.to_owned())?;
        if !state.names.has_dir(dir) {
            return Err(missing("directory"));
        }
        Ok(state.names.list(dir))
    }

    fn open(&self, path: &str, read_only: bool) -> io::Result<Box<dyn DiskFile>> {
        let (mut state, _) = self.enter(CallKind::Open, &|| path.to_owned())?;
        let inode = state.names.find(path).ok_or_else(|| missing("file"))?;
        if state.faults.read_only && !read_only {
            return Err(faults::read_only());
        }
        let mut file = self.file(&mut state, path, inode);
        file.read_only = read_only;
        Ok(Box::new(file))
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn DiskFile>> {
        let (mut state, _) = self.enter(CallKind::Create, &|| path.to_owned())?;
        if state.names.find(path).is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if !state.names.has_dir(dir_of(path)) {
            return Err(missing("directory"));
        }
        let inode = state.new_number();
        state.names.add(path, inode);
        Ok(Box::new(self.file(&mut state, path, inode)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (mut state, _) = self.enter(CallKind::Rename, &|| format!("{from} to {to}"))?;
        if !state.names.has_dir(dir_of(to)) {
            return Err(missing("directory"));
        }
        state.names.rename(from, to).ok_or_else(|| missing("file"))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let (mut state, _) = self.enter(CallKind::Remove, &|| path.to_owned())?;
        state.names.remove(path).map(drop).ok_or_else(|| missing("file"))
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        let (mut state, verdict) = self.enter(CallKind::SyncDir, &|| dir.to_owned())?;
        if !state.names.has_dir(dir) {
            return Err(missing("directory"));
        }
        if !matches!(verdict, Verdict::Lie) {
            state.names.flush(dir);
            state.collect();
        }
        Ok(())
    }

    fn lock(&self, path: &str) -> io::Result<Option<Box<dyn DiskFile>>> {
        let (mut state, _) = self.enter(CallKind::Lock, &|| path.to_owned())?;
        if state.faults.read_only {
            return Err(faults::read_only());
        }
        let inode = match state.names.find(path) {
            Some(inode) => inode,
            None if !state.names.has_dir(dir_of(path)) => return Err(missing("directory")),
            None => {
                let inode = state.new_number();
                state.names.add(path, inode);
                inode
            }
        };
        if state.locks.contains_key(&inode) {
            return Ok(None);
        }
        let token = state.new_number();
        state.locks.insert(inode, token);
        let mut file = self.file(&mut state, path, inode);
        file.lock = Some(token);
        Ok(Some(Box::new(file)))
    }
}

struct SimFile {
    shared: Arc<Mutex<State>>,
    boot: u64,
    path: String,
    inode: Inode,
    read_only: bool,
    lock: Option<u64>,
}

impl SimFile {
    fn enter(
        &self,
        kind: CallKind,
        what: &dyn Fn() -> String,
    ) -> io::Result<(MutexGuard<'_, State>, Verdict)> {
        if self.read_only && kind.changes() {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "opened for reading only"));
        }
        enter(&self.shared, self.boot, kind, &|| format!("{} {}", self.path, what()))
    }
}

fn to_usize(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| ErrorKind::FileTooLarge.into())
}

impl DiskFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let what = || format!("{} bytes at {offset}", buffer.len());
        let (mut state, _) = self.enter(CallKind::Read, &what)?;
        Ok(state.node(self.inode)?.content.read(buffer, to_usize(offset)?))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let what = || format!("{} bytes at {offset}", bytes.len());
        let (mut state, verdict) = self.enter(CallKind::Write, &what)?;
        let asked = match verdict {
            Verdict::Half => bytes.len() / 2,
            Verdict::Pass | Verdict::Lie | Verdict::Fail(_) => bytes.len(),
        };
        let (offset, room) = (to_usize(offset)?, state.room());
        let content = &mut state.node(self.inode)?.content;
        let fits = (content.bytes().len() as u64).saturating_add(room);
        let n_written = asked.min(to_usize(fits)?.saturating_sub(offset));
        if n_written == 0 && !bytes.is_empty() {
            return Err(faults::no_space());
        }
        content.write(bytes.get(..n_written).unwrap_or_default(), offset);
        Ok(n_written)
    }

    fn sync(&self) -> io::Result<()> {
        let entered = self.enter(CallKind::Sync, &String::new);
        let (mut state, verdict) = match entered {
            Ok(entered) => entered,
            Err(error) => {
                let mut state = lock(&self.shared);
                if state.boot == self.boot && state.faults.stopped().is_none() {
                    state.node(self.inode)?.content.forget();
                }
                return Err(error);
            }
        };
        let read_only = state.faults.read_only;
        let content = &mut state.node(self.inode)?.content;
        if read_only && !content.is_clean() {
            return Err(faults::read_only());
        }
        if !matches!(verdict, Verdict::Lie) {
            content.flush();
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let (mut state, _) = self.enter(CallKind::Truncate, &|| format!("to {len}"))?;
        let room = state.room();
        let content = &mut state.node(self.inode)?.content;
        if len > (content.bytes().len() as u64).saturating_add(room) {
            return Err(faults::no_space());
        }
        content.set_len(to_usize(len)?);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let (mut state, _) = self.enter(CallKind::Len, &String::new)?;
        Ok(state.node(self.inode)?.content.bytes().len() as u64)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = lock(&self.shared);
        if state.boot != self.boot {
            return;
        }
        if self.lock.is_some() {
            state.locks.remove(&self.inode);
        }
        if let Some(node) = state.inodes.get_mut(&self.inode) {
            node.n_open = node.n_open.saturating_sub(1);
        }
    }
}
