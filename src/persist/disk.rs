//! The few things the log asks of a file system, so that a simulated one can fail at each of them.
//!
//! **Boundary**: paths are relative to the data directory, with `/` between parts; no call here
//! retries, caches or decides.

use std::io;

/// A data directory on some file system.
pub trait Disk: Send + Sync + 'static {
    /// Makes the data directory, and the directory `dir` below it, where they are missing.
    /// An empty `dir` is the data directory itself.
    fn make_dir(&self, dir: &str) -> io::Result<()>;
    /// The names of the files in `dir`, in no order. Directories are left out.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;
    /// Opens an existing file for reading and, unless `read_only`, writing.
    fn open(&self, path: &str, read_only: bool) -> io::Result<Box<dyn DiskFile>>;
    /// Makes a file for reading and writing; it must not exist.
    fn create(&self, path: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file another name in one step, replacing what had that name. Durable after
    /// [`Disk::sync_dir`] of both directories.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file. Durable after [`Disk::sync_dir`].
    fn remove(&self, path: &str) -> io::Result<()>;
    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &str) -> io::Result<()>;
    /// Takes the kernel's exclusive lock on the file `path`, made if it is missing, without
    /// waiting. `Ok(None)` when another process, or another opening in this one, holds it. The
    /// lock ends when the value is dropped or the process dies.
    fn lock(&self, path: &str) -> io::Result<Option<Box<dyn DiskFile>>>;
}

/// An open file.
#[expect(clippy::len_without_is_empty, reason = "nobody asks whether a file is empty")]
pub trait DiskFile: Send + Sync {
    /// Reads at `offset` until `buffer` is full or the file ends; gives the bytes read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes once at `offset`; may write less than asked. Gives the bytes written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes the file's bytes and length durable.
    fn sync(&self) -> io::Result<()>;
    /// Sets the length, in bytes.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// The length, in bytes.
    fn len(&self) -> io::Result<u64>;
}
