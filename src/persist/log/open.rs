//! Opening a data directory: lock, description, directories, recovery.
//!
//! **Invariant**: nothing is changed before the lock is held; a directory is never taken for a new
//! one because a part of it is missing.

use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::committer::payload_max;
use super::freed::Freed;
use super::heads_file::HEADS;
use super::meta::{META, Meta, corrupt, unusable};
use super::recover::{CUT_DIR, Recovered, recover};
use super::segment::{HISTORY_DIR, LOG_DIR, Segments};
use crate::config::StoreConfig;
use crate::error::{Code, Fault};
use crate::persist::disk::{Disk, DiskFile};

/// The lock file's name.
pub(crate) const LOCK: &str = "lock";

const HOLDER_MAX: usize = 200;

/// An opened directory.
pub(crate) struct Opened {
    pub(crate) segments: Segments,
    pub(crate) recovered: Recovered,
    pub(crate) lock: Box<dyn DiskFile>,
}

/// Opens and recovers.
pub(crate) fn open(disk: &Arc<dyn Disk>, config: &StoreConfig) -> Result<Opened, Fault> {
    disk.make_dir("").map_err(|error| unusable("use the data directory", &error))?;
    let lock = take_lock(&**disk)?;
    let meta = match Meta::read(&**disk)? {
        Some(meta) => meta,
        None => describe(&**disk, config)?,
    };
    if config.frame_max as u64 > payload_max(meta.segment_bytes) {
        let text = format!(
            "the data directory has segments of {} bytes, too small for frame_max {}, which may be \
             {} there",
            meta.segment_bytes,
            config.frame_max,
            payload_max(meta.segment_bytes),
        );
        return Err(Fault::new(Code::StoreUnusable, text));
    }
    make_dirs(&**disk).map_err(|error| unusable("make the journal's directories", &error))?;
    let segments = Segments::list(disk.clone(), meta.segment_bytes, false)
        .map_err(|error| unusable("list the segments", &error))?;
    let recovered = recover(disk, &segments)?;
    if recovered.read_only.is_none() {
        segments.sweep().map_err(|error| unusable("remove unfinished segments", &error))?;
    }
    Ok(Opened { segments, recovered, lock })
}

fn take_lock(disk: &dyn Disk) -> Result<Box<dyn DiskFile>, Fault> {
    let lock = disk.lock(LOCK).map_err(|error| unusable("lock the data directory", &error))?;
    let Some(lock) = lock else {
        let holder = holder(disk).unwrap_or_default();
        let text = format!("the data directory is in use by {holder}");
        return Err(Fault::new(Code::StoreLocked, text));
    };
    // Only for people: who is to be told is told by the kernel's lock.
    if let Err(error) = name_holder(&*lock) {
        tracing::debug!(%error, "the lock file does not name its holder");
    }
    Ok(lock)
}

fn name_holder(lock: &dyn DiskFile) -> io::Result<()> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let text = format!("process {} since {since} (unix time)\n", std::process::id());
    lock.truncate(0)?;
    super::segment::write_all(lock, text.as_bytes(), 0)
}

fn holder(disk: &dyn Disk) -> io::Result<String> {
    let mut bytes = [0; HOLDER_MAX];
    let n = disk.open(LOCK, true)?.read_at(&mut bytes, 0)?;
    let text = String::from_utf8_lossy(bytes.get(..n).unwrap_or_default()).trim().to_owned();
    Ok(if text.is_empty() { "another process".to_owned() } else { text })
}

/// Whether a directory without a description is without a journal too.
///
/// # Errors
/// `JOURNAL_CORRUPT` where there is a journal, `STORE_UNUSABLE` where nobody can tell.
pub(super) fn check_unused(disk: &dyn Disk) -> Result<(), Fault> {
    let listed = |dir| match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        names => names,
    };
    let in_use = |dir| -> io::Result<bool> { Ok(!listed(dir)?.is_empty()) };
    let found = in_use(LOG_DIR)
        .and_then(|log| Ok(log || in_use(HISTORY_DIR)?))
        .and_then(|dirs| Ok(dirs || listed("")?.iter().any(|name| name == HEADS)))
        .map_err(|error| unusable("list the data directory", &error))?;
    if found {
        return Err(corrupt(format!(
            "{META} is missing although there is a journal; restore it from a copy",
        )));
    }
    Ok(())
}

/// Describes a new data directory.
fn describe(disk: &dyn Disk, config: &StoreConfig) -> Result<Meta, Fault> {
    check_unused(disk)?;
    let meta = Meta { segment_bytes: config.segment_bytes };
    Freed::default()
        .write(disk)
        .and_then(|()| meta.write(disk))
        .map_err(|error| unusable("describe the data directory", &error))?;
    Ok(meta)
}

fn make_dirs(disk: &dyn Disk) -> io::Result<()> {
    for dir in [LOG_DIR, HISTORY_DIR, CUT_DIR] {
        disk.make_dir(dir)?;
    }
    disk.sync_dir("")
}
