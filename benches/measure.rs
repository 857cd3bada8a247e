//! What the benches share: the disk's own limit, and how figures are printed.
//!
//! The limit is one thread that writes groups of records into a file of zeros and flushes once a
//! group: what a journal could reach if everything else were free.

#![allow(dead_code, reason = "each bench uses its part")]

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use callboard::bus::{
    Agent, AgentError, BodySpec, Builder, Bus, Create, Next, Seed, StepFuture, Turn,
};
use callboard::protocol::{Label, SessionId, Workspace};

/// What one run of the limit reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    /// Records a second.
    pub(crate) records_per_s: f64,
    /// The median time of one group: write and flush.
    pub(crate) group_p50: Duration,
}

/// Writes groups of `group` records of `record` bytes each for `time`, one flush a group.
///
/// # Errors
/// Whatever the file system says.
pub(crate) fn limit(dir: &Path, record: usize, group: usize, time: Duration) -> io::Result<Limit> {
    let path = dir.join("limit");
    let file_bytes = 256 << 20;
    let file = zeros(&path, file_bytes)?;
    let mut bytes = vec![0x61_u8; record * group];
    let mut groups = Vec::new();
    let began = Instant::now();
    let mut offset = 0;
    while began.elapsed() < time {
        let start = Instant::now();
        if let Some(first) = bytes.first_mut() {
            *first = first.wrapping_add(1);
        }
        if offset + bytes.len() as u64 > file_bytes {
            offset = 0;
        }
        file.write_all_at(&bytes, offset)?;
        file.sync_data()?;
        offset = (offset + bytes.len() as u64).next_multiple_of(4_096);
        groups.push(start.elapsed());
    }
    let seconds = began.elapsed().as_secs_f64();
    let records_per_s = (groups.len() * group) as f64 / seconds;
    groups.sort_unstable();
    let group_p50 = groups.get(groups.len() / 2).copied().unwrap_or_default();
    std::fs::remove_file(path)?;
    Ok(Limit { records_per_s, group_p50 })
}

fn zeros(path: &Path, bytes: u64) -> io::Result<File> {
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
    let block = vec![0_u8; 1 << 20];
    let mut offset = 0;
    while offset < bytes {
        file.write_all_at(&block, offset)?;
        offset += block.len() as u64;
    }
    file.sync_all()?;
    Ok(file)
}

/// The middle of an unsorted list.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// How often each side is measured, in turn; the medians are compared.
pub(crate) fn rounds() -> usize {
    let asked = std::env::var("CALLBOARD_ROUNDS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(3)
}

/// A directory on the disk that the build uses, not on a memory file system.
///
/// # Errors
/// Whatever the file system says.
pub(crate) fn scratch() -> io::Result<tempfile::TempDir> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    std::fs::create_dir_all(&target)?;
    tempfile::Builder::new().prefix("bench-").tempdir_in(target)
}

/// Copies the files of a directory and of the directories in it.
///
/// # Errors
/// Whatever the file system says.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            std::fs::create_dir_all(&target)?;
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

struct Sink;

impl Agent for Sink {
    fn step<'a>(&'a mut self, _turn: &'a mut Turn) -> StepFuture<'a> {
        Box::pin(async { Ok(Next::End) })
    }
}

/// Adds the agent that handles everything and does nothing.
pub(crate) fn with_sink(builder: Builder) -> Builder {
    builder.agent("sink", |_: Seed| -> Result<Box<dyn Agent>, AgentError> { Ok(Box::new(Sink)) })
}

/// Makes sessions that may all talk to each other.
///
/// # Errors
/// The bus's.
pub(crate) async fn people(bus: &Bus, count: usize) -> Result<Vec<SessionId>, Box<dyn Error>> {
    let ids = more_people(bus, 0..count).await?;
    bus.group(&Label::new("everyone")?, &ids).await?;
    Ok(ids)
}

/// Makes sessions that may talk to nobody.
///
/// # Errors
/// The bus's.
pub(crate) async fn more_people(
    bus: &Bus,
    numbers: Range<usize>,
) -> Result<Vec<SessionId>, Box<dyn Error>> {
    let mut tasks = tokio::task::JoinSet::new();
    for n in numbers {
        let bus = bus.clone();
        let body = BodySpec::Agent { name: "sink".to_owned(), settings: None };
        let (label, workspace) = (Label::new(&format!("p{n}"))?, Some(Workspace::new("main")?));
        tasks.spawn(async move { bus.create(Create { label, workspace, body }).await });
    }
    Ok(tasks.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()?)
}
