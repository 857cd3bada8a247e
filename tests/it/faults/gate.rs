//! What a fault needs of the machine, and whether it is asked for.
//!
//! **Invariant**: a test that does not run says so on stderr, by its name and with the reason,
//! also where the harness captures what passing tests print.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Whether faults are wanted at all.
pub(super) fn is_wanted(test: &str) -> bool {
    let wanted = std::env::var_os("CALLBOARD_FAULTS").is_some();
    if !wanted {
        skip(test, "CALLBOARD_FAULTS is not set, `./check.sh faults` sets it");
    }
    wanted
}

/// Whether faults are wanted and this machine can trace system calls.
pub(super) fn has_strace(test: &str) -> bool {
    if !is_wanted(test) {
        return false;
    }
    let words = ["-f", "--seccomp-bpf", "-qq", "-e", "trace=rename", "true"];
    let can = Command::new("strace").args(words).stderr(Stdio::null()).status();
    let can = can.is_ok_and(|status| status.success());
    if !can {
        skip(test, "strace is missing or may not trace here");
    }
    can
}

/// The library by which a process is shown another time of day, where faults are wanted.
pub(super) fn false_clock(test: &str) -> Option<PathBuf> {
    if !is_wanted(test) {
        return None;
    }
    let triples = ["x86_64-linux-gnu/", "aarch64-linux-gnu/", ""];
    let roots = ["/usr/lib/", "/usr/local/lib/"];
    let paths = roots.iter().flat_map(|root| {
        triples.iter().map(move |triple| format!("{root}{triple}faketime/libfaketimeMT.so.1"))
    });
    let found = paths.map(PathBuf::from).find(|path| path.exists());
    if found.is_none() {
        skip(test, "libfaketime is missing");
    }
    found
}

/// A file system in memory, mounted for one test.
pub(super) struct Mounted {
    home: TempDir,
}

impl Mounted {
    /// Mounts so many KiB, where faults are wanted and mounting is allowed.
    pub(super) fn of_kib(test: &str, kib: u64) -> Option<Mounted> {
        if !is_wanted(test) {
            return None;
        }
        let home = tempfile::tempdir().expect("a directory");
        let size = format!("size={kib}k");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(home.path()).stderr(Stdio::null());
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Mounted { home });
        }
        skip(test, "a tmpfs cannot be mounted, which needs root");
        None
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        self.home.path()
    }

    /// Mounts it again with other options.
    pub(super) fn remount(&self, option: &str) {
        let option = format!("remount,{option}");
        let mut mount = Command::new("mount");
        let done = mount.args(["-o", &option]).arg(self.path()).status().expect("mount is there");
        assert!(done.success(), "{option} failed");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily, since a process of a failed test may still hold it.
        let done = Command::new("umount").arg("-l").arg(self.path()).status();
        assert!(done.is_ok_and(|status| status.success()), "it could not be unmounted");
    }
}

fn skip(test: &str, reason: &str) {
    // Past the capture of the harness, which hides what passing tests print.
    let line = format!("skipped: faults: {test}: {reason}\n");
    std::io::stderr().write_all(line.as_bytes()).expect("stderr can be written");
}
