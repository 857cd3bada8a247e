//! The disk's own limit: what a journal could reach if everything but the disk were free.
//!
//! **Boundary**: one thread that writes groups of records into a file of zeros and flushes once a
//! group. The file has no name, so nothing is left behind, not even by a kill.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

/// Records that one message costs: one at its sender, one at its target.
const RECORDS_PER_MESSAGE: f64 = 2.0;

/// What a record takes beside the body: the message's envelope and the frame around it.
const ENVELOPE: usize = 144;
/// Records of one group, unless another number is asked for.
const GROUP: usize = 1_000;

/// What is written over and over again, as a journal's segments are written ahead of use.
const FILE_BYTES: u64 = 64 << 20;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Bytes of a record.
    pub record: usize,
    /// Records of a group: written at once and flushed once.
    pub group: usize,
    /// How long.
    pub time: Duration,
}

impl Work {
    /// What a load of bodies of `size` bytes is compared with.
    pub fn of_bodies(size: usize, time: Duration) -> Self {
        Work { record: size + ENVELOPE, group: GROUP, time }
    }
}

/// What one measurement reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Limit {
    /// Messages a second, at two records a message.
    pub messages_per_s: f64,
    /// Records a second.
    pub records_per_s: f64,
    /// The median time of one group, write and flush, in microseconds.
    pub group_p50_us: u64,
    /// What 99 of 100 groups stay under, in microseconds.
    pub group_p99_us: u64,
    /// Bytes of a record.
    pub record_bytes: usize,
    /// Records of a group.
    pub records_per_group: usize,
    /// How long it was measured, in seconds.
    pub elapsed_s: f64,
}

/// Measures the disk that `dir` lies on.
///
/// # Errors
/// Whatever the file system says.
pub fn measure(dir: &Path, work: Work) -> io::Result<Limit> {
    let Work { record, group, time } = work;
    let mut file = zeros(dir)?;
    let mut bytes = vec![0x61_u8; record * group];
    let mut times = Vec::new();
    let mut offset = 0;
    let began = Instant::now();
    while times.is_empty() || began.elapsed() < time {
        let start = Instant::now();
        if let Some(first) = bytes.first_mut() {
            *first = first.wrapping_add(1);
        }
        if offset + bytes.len() as u64 > FILE_BYTES {
            offset = 0;
        }
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(&bytes)?;
        file.sync_data()?;
        offset = (offset + bytes.len() as u64).next_multiple_of(4_096);
        times.push(start.elapsed());
    }
    let elapsed_s = began.elapsed().as_secs_f64();
    let records_per_s = (times.len() * group) as f64 / elapsed_s;
    times.sort_unstable();
    Ok(Limit {
        messages_per_s: (records_per_s / RECORDS_PER_MESSAGE).round(),
        records_per_s: records_per_s.round(),
        group_p50_us: micros_at(&times, 0.5),
        group_p99_us: micros_at(&times, 0.99),
        record_bytes: record,
        records_per_group: group,
        elapsed_s: (elapsed_s * 1_000.0).round() / 1_000.0,
    })
}

/// What the share `quantile` of sorted times stays under.
fn micros_at(times: &[Duration], quantile: f64) -> u64 {
    let at = (times.len() as f64 * quantile) as usize;
    let time = times.get(at.min(times.len().saturating_sub(1))).copied().unwrap_or_default();
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn zeros(dir: &Path) -> io::Result<File> {
    let mut file = tempfile::tempfile_in(dir)?;
    let block = vec![0_u8; 1 << 20];
    for _ in 0..FILE_BYTES / block.len() as u64 {
        file.write_all(&block)?;
    }
    file.sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_says_what_it_wrote_and_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let time = Duration::ZERO;
        let limit = measure(dir.path(), Work { record: 100, group: 10, time }).unwrap();
        assert!(limit.records_per_s > 0.0 && limit.group_p50_us <= limit.group_p99_us);
        assert_eq!((limit.record_bytes, limit.records_per_group), (100, 10));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
