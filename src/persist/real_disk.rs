//! The disk of this machine: one directory of a file system, through the standard library.
//!
//! **Boundary**: every call here is one or a few system calls; nothing is retried but a read that
//! a signal cut short, nothing is cached, and what an error means is the log's to decide.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::disk::{Disk, DiskFile};

/// A data directory on this machine.
#[derive(Debug, Clone)]
pub struct RealDisk {
    root: PathBuf,
}

impl RealDisk {
    /// The directory `root`, which [`Disk::make_dir`] makes where it is missing.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        RealDisk { root: root.into() }
    }

    /// The data directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }
}

impl Disk for RealDisk {
    /// Makes what is missing and flushes each parent, so that a directory, once made, stays.
    fn make_dir(&self, dir: &str) -> io::Result<()> {
        let path = self.path(dir);
        let missing: Vec<&Path> =
            path.ancestors().take_while(|part| !is_empty(part) && !part.is_dir()).collect();
        for part in missing.into_iter().rev() {
            match fs::create_dir(part) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && part.is_dir() => {}
                made => made?,
            }
            sync_directory(parent_of(part))?;
        }
        Ok(())
    }

    /// Names that are not UTF-8 are not ours and left out.
    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.path(dir))? {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn open(&self, path: &str, read_only: bool) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(!read_only).open(self.path(path))?;
        Ok(Box::new(RealFile { file }))
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn DiskFile>> {
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).open(self.path(path))?;
        Ok(Box::new(RealFile { file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.path(path))
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        sync_directory(&self.path(dir))
    }

    fn lock(&self, path: &str) -> io::Result<Option<Box<dyn DiskFile>>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(self.path(path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(RealFile { file }))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// The lock that [`Disk::lock`] gives belongs to the open file, and ends with it.
struct RealFile {
    file: File,
}

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let (mut rest, mut at, mut n_read) = (buffer, offset, 0);
        while !rest.is_empty() {
            match self.file.read_at(rest, at) {
                Ok(0) => break,
                Ok(n) => {
                    n_read += n;
                    at += n as u64;
                    rest = rest.get_mut(n..).unwrap_or_default();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(n_read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    /// `fdatasync`, which flushes a changed length too and leaves times out.
    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !is_empty(parent) => parent,
        Some(_) | None => Path::new("."),
    }
}

fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> (tempfile::TempDir, RealDisk) {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::new(dir.path().join("a/data"));
        disk.make_dir("").unwrap();
        (dir, disk)
    }

    #[test]
    fn what_is_written_is_read_back_up_to_the_files_end() {
        let (_dir, disk) = disk();
        disk.make_dir("segments").unwrap();
        let file = disk.create("segments/0").unwrap();
        assert_eq!(file.write_at(b"hello", 3).unwrap(), 5);
        file.sync().unwrap();
        disk.sync_dir("segments").unwrap();
        let mut buffer = [7; 16];
        let file = disk.open("segments/0", true).unwrap();
        assert_eq!(file.read_at(&mut buffer, 2).unwrap(), 6);
        assert_eq!(buffer[..6], *b"\0hello");
        assert_eq!((file.len().unwrap(), file.read_at(&mut buffer, 99).unwrap()), (8, 0));
        assert!(file.write_at(b"x", 0).is_err(), "a read-only opening was written");
    }

    #[test]
    fn names_are_made_once_moved_over_others_and_removed() {
        let (_dir, disk) = disk();
        disk.make_dir("old").unwrap();
        disk.make_dir("old").unwrap();
        disk.create("a").unwrap().write_at(b"a", 0).unwrap();
        assert_eq!(disk.create("a").err().unwrap().kind(), ErrorKind::AlreadyExists);
        disk.create("old/b").unwrap();
        disk.rename("a", "old/b").unwrap();
        assert_eq!(disk.list("").unwrap(), Vec::<String>::new());
        assert_eq!(disk.list("old").unwrap(), ["b"]);
        assert_eq!(disk.open("old/b", false).unwrap().len().unwrap(), 1);
        disk.remove("old/b").unwrap();
        assert_eq!(disk.open("old/b", true).err().unwrap().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn the_lock_is_held_once_also_within_one_process_and_ends_with_its_file() {
        let (_dir, disk) = disk();
        let held = disk.lock("lock").unwrap().unwrap();
        held.write_at(b"123", 0).unwrap();
        assert!(disk.lock("lock").unwrap().is_none());
        assert!(RealDisk::new(disk.root().join("../data")).lock("lock").unwrap().is_none());
        drop(held);
        assert_eq!(disk.lock("lock").unwrap().unwrap().len().unwrap(), 3, "content was lost");
    }
}
