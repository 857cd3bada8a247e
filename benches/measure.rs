//! What the benches share: directories, sessions, and how figures are printed. The disk's own
//! limit is `callboard::sim::limit`, as every load has it.

#![allow(dead_code, reason = "each bench uses its part")]

use std::error::Error;
use std::io;
use std::ops::Range;
use std::path::Path;

use callboard::bus::{
    Agent, AgentError, BodySpec, Builder, Bus, Create, Next, Seed, StepFuture, Turn,
};
use callboard::protocol::{Label, SessionId, Workspace};

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
