//! Which calls of the simulated disk fail, and how.
//!
//! **Invariant**: every call of a live process counts once, whether it fails or not.

use std::collections::BTreeMap;
use std::io;

const EIO: i32 = 5;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallKind {
    /// [`Disk::make_dir`](crate::persist::Disk::make_dir)
    MakeDir,
    /// [`Disk::list`](crate::persist::Disk::list)
    List,
    /// [`Disk::open`](crate::persist::Disk::open)
    Open,
    /// [`Disk::create`](crate::persist::Disk::create)
    Create,
    /// [`Disk::rename`](crate::persist::Disk::rename)
    Rename,
    /// [`Disk::remove`](crate::persist::Disk::remove)
    Remove,
    /// [`Disk::sync_dir`](crate::persist::Disk::sync_dir)
    SyncDir,
    /// [`Disk::lock`](crate::persist::Disk::lock)
    Lock,
    /// [`DiskFile::read_at`](crate::persist::DiskFile::read_at)
    Read,
    /// [`DiskFile::write_at`](crate::persist::DiskFile::write_at)
    Write,
    /// [`DiskFile::sync`](crate::persist::DiskFile::sync)
    Sync,
    /// [`DiskFile::truncate`](crate::persist::DiskFile::truncate)
    Truncate,
    /// [`DiskFile::len`](crate::persist::DiskFile::len)
    Len,
}

impl CallKind {
    /// Whether the call changes the disk, so that a read-only one refuses it.
    pub fn changes(self) -> bool {
        match self {
            CallKind::Create
            | CallKind::Rename
            | CallKind::Remove
            | CallKind::Write
            | CallKind::Truncate => true,
            CallKind::MakeDir
            | CallKind::List
            | CallKind::Open
            | CallKind::SyncDir
            | CallKind::Lock
            | CallKind::Read
            | CallKind::Sync
            | CallKind::Len => false,
        }
    }
}

/// How one call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    /// `EIO`. After a flush that failed so, what it was to flush counts as clean, as on Linux:
    /// readers see it, later flushes leave it out, a crash may lose it.
    Io,
    /// `ENOSPC`.
    NoSpace,
    /// `EROFS`.
    ReadOnly,
    /// `EMFILE`.
    TooManyFiles,
    /// A write stores the first half of its bytes and says so; other calls pass.
    ShortWrite,
    /// A flush says it is done and does nothing; other calls pass.
    LyingFlush,
}

impl DiskFault {
    fn error(self) -> Option<io::Error> {
        let code = match self {
            DiskFault::Io => EIO,
            DiskFault::NoSpace => ENOSPC,
            DiskFault::ReadOnly => EROFS,
            DiskFault::TooManyFiles => EMFILE,
            DiskFault::ShortWrite | DiskFault::LyingFlush => return None,
        };
        Some(io::Error::from_raw_os_error(code))
    }
}

pub(super) fn no_space() -> io::Error {
    io::Error::from_raw_os_error(ENOSPC)
}

pub(super) fn read_only() -> io::Error {
    io::Error::from_raw_os_error(EROFS)
}

/// What is armed, and what was counted.
#[derive(Debug, Default)]
pub(super) struct Faults {
    n_calls: u64,
    n_of_kind: BTreeMap<CallKind, u64>,
    armed: Vec<(When, DiskFault)>,
    stop_at: Option<u64>,
    stopped: Option<String>,
    pub(super) lying: bool,
    pub(super) read_only: bool,
    pub(super) capacity: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Call(u64),
    OfKind(CallKind, u64),
}

/// What a call is to do.
pub(super) enum Verdict {
    Pass,
    Half,
    Lie,
    Fail(io::Error),
}

impl Faults {
    pub(super) fn n_calls(&self) -> u64 {
        self.n_calls
    }

    pub(super) fn n_of_kind(&self, kind: CallKind) -> u64 {
        self.n_of_kind.get(&kind).copied().unwrap_or(0)
    }

    pub(super) fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    pub(super) fn stop_at(&mut self, call: Option<u64>) {
        (self.stop_at, self.stopped) = (call, None);
    }

    pub(super) fn arm_call(&mut self, call: u64, fault: DiskFault) {
        self.armed.push((When::Call(call), fault));
    }

    pub(super) fn arm_kind(&mut self, kind: CallKind, n: u64, fault: DiskFault) {
        self.armed.push((When::OfKind(kind, n), fault));
    }

    /// Counts a call and says what becomes of it. `what` names it for the panics of tests.
    pub(super) fn meet(&mut self, kind: CallKind, what: &dyn Fn() -> String) -> Verdict {
        self.n_calls += 1;
        let n_of_kind = self.n_of_kind.entry(kind).or_default();
        *n_of_kind += 1;
        if self.stop_at.is_some_and(|stop| self.n_calls >= stop) {
            self.stopped.get_or_insert_with(|| format!("call {}: {}", self.n_calls, what()));
            return Verdict::Fail(io::Error::from_raw_os_error(EIO));
        }
        let now = [When::Call(self.n_calls), When::OfKind(kind, *n_of_kind)];
        let met = self.armed.iter().find(|(when, _)| now.contains(when)).map(|(_, fault)| *fault);
        if self.read_only && kind.changes() {
            return Verdict::Fail(read_only());
        }
        match met {
            Some(DiskFault::ShortWrite) if kind == CallKind::Write => Verdict::Half,
            Some(DiskFault::LyingFlush) if is_flush(kind) => Verdict::Lie,
            None if self.lying && is_flush(kind) => Verdict::Lie,
            Some(fault) => fault.error().map_or(Verdict::Pass, Verdict::Fail),
            None => Verdict::Pass,
        }
    }
}

fn is_flush(kind: CallKind) -> bool {
    matches!(kind, CallKind::Sync | CallKind::SyncDir)
}
