//! What a load runs on, and what it takes of it.
//!
//! **Boundary**: read from what the kernel shows under `/proc`; where that is not there, nothing
//! is said.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Ticks of processor time a second, as Linux counts them for programs on all common machines.
const TICKS_PER_S: u64 = 100;

/// A machine and the build that ran on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The operating system, and its version where it is known.
    pub system: String,
    /// The kind of processor.
    pub architecture: String,
    /// Its name, where it is known.
    pub processor: Option<String>,
    /// Cores that the process may use.
    pub cores: usize,
    /// Memory in bytes, where it is known.
    pub memory_bytes: Option<u64>,
    /// The file system of the data directory, where it is known.
    pub file_system: Option<String>,
    /// `release` or `debug`.
    pub build: String,
}

impl Machine {
    /// This machine, with the file system that `data` lies on.
    pub(super) fn here(data: &Path) -> Self {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            system: format!("{} {}", std::env::consts::OS, release.trim()).trim_end().to_owned(),
            architecture: std::env::consts::ARCH.to_owned(),
            processor: field("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kib("/proc/meminfo", "MemTotal"),
            file_system: file_system(data),
            build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
        }
    }
}

impl Machine {
    /// In one line.
    pub(super) fn text(&self) -> String {
        let Machine { system, architecture, processor, cores, memory_bytes, file_system, .. } =
            self;
        let mut parts = vec![format!("{system} on {architecture}")];
        parts.extend(processor.clone());
        parts.push(format!("{cores} cores"));
        parts.extend(memory_bytes.map(|bytes| format!("{} MiB", bytes >> 20)));
        parts.extend(file_system.clone());
        parts.join(", ")
    }
}

/// What a process takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Usage {
    /// Processor time of all its threads, in microseconds.
    pub(super) cpu_us: u64,
    /// Memory that it holds, in bytes.
    pub(super) rss_bytes: u64,
}

impl Usage {
    /// Of the process with this number; none where the kernel does not tell.
    pub(super) fn of(process: u32) -> Option<Usage> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        Some(Usage {
            cpu_us: cpu_us(&stat)?,
            rss_bytes: kib(&format!("/proc/{process}/status"), "VmRSS")?,
        })
    }
}

/// The name of a process stands in brackets and may hold anything; processor time in user and in
/// kernel mode are the 12th and 13th field after it.
fn cpu_us(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some((ticks()? + ticks()?) * (1_000_000 / TICKS_PER_S))
}

fn kib(path: &str, name: &str) -> Option<u64> {
    let value = field(path, name)?;
    let kib: u64 = value.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

/// The kind of the mount that lies deepest above `data`.
fn file_system(data: &Path) -> Option<String> {
    let data = fs::canonicalize(data).ok()?;
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let mount = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let (point, kind) = (words.next()?.to_owned(), words.next()?.to_owned());
        data.starts_with(&point).then_some((point.len(), kind))
    };
    // Of two mounts at one place the later one is seen.
    mounts.lines().filter_map(mount).max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_a_name_with_brackets() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 150 0 0 20 0 9 0 100 1 1";
        assert_eq!(cpu_us(stat), Some(4_000_000));
        assert_eq!(cpu_us("nonsense"), None);
    }

    #[test]
    fn a_machine_has_cores_and_a_build() {
        let machine = Machine::here(Path::new("."));
        assert!(machine.cores > 0);
        assert!(machine.system.starts_with(std::env::consts::OS), "{machine:?}");
    }
}
