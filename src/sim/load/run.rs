//! A load from its beginning to its report.
//!
//! **Invariant**: what is counted is counted after the bus has stopped, and the disk's limit is
//! measured right after the load, so that both say something of the same minutes.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use uuid::Uuid;

use super::count::{self, Count, Totals};
use super::desk::Desk;
use super::gauge::{Gauge, Stage as Reached};
use super::machine::{Machine, Usage};
use super::pacer::Pacer;
use super::plan::{Plan, Span};
use super::report::{Curves, Figures, Report, Restart};
use super::{apart, here};
use crate::config::{Durability, History};
use crate::error::Error;
use crate::sim::limit::{self, Limit, Work};
use crate::sim::runner::{RunError, Stage, Told};

/// How a load ended.
pub enum LoadEnd {
    /// All was sent and all is quiet.
    Done(Box<Report>),
    /// It was stopped; there is nothing to say of it.
    Stopped,
}

/// Why a load failed.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// What the bus says, or its run.
    #[error("{0}")]
    Run(#[from] RunError),
    /// The system gave no process, thread or file.
    #[error("{0}: {1}")]
    System(&'static str, std::io::Error),
    /// The process that runs the bus ended by itself, with this code and sentence.
    #[error("{text}")]
    Process {
        /// Its exit code, where it has one.
        code: Option<u8>,
        /// What it said.
        text: String,
    },
    /// The load was over before the process was to be killed.
    #[error("the load was over before --restart-at, and nothing was killed")]
    OverBefore,
}

impl From<Error> for LoadError {
    fn from(error: Error) -> Self {
        LoadError::Run(error.into())
    }
}

/// The program that runs a bus for a load, in a process of its own.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its path.
    pub path: PathBuf,
    /// What makes it call [`super::serve_child`].
    pub arguments: Vec<String>,
}

/// What a load has left behind.
pub(super) struct Left {
    pub(super) desk: Arc<Desk>,
    pub(super) totals: Totals,
    /// Processor time taken and memory held at the end, where the kernel tells.
    pub(super) usage: Option<Usage>,
    pub(super) restarts: Vec<Restart>,
    /// Bytes of journals in memory.
    pub(super) memory_bytes: Option<u64>,
}

/// Runs a load in a directory that holds no journal yet.
///
/// # Errors
/// What the bus says: `WRONG_ORIGIN` for a directory that was used before, faults of the journal;
/// what the system says.
///
/// # Cancel safety
/// Dropped, it leaves the data directory as a kill would.
pub async fn load(plan: Plan, stage: Stage, program: &Program) -> Result<LoadEnd, LoadError> {
    let name = Uuid::now_v7().to_string();
    let (data, mut stop) = (stage.data.clone(), stage.stop.clone());
    let history = stage.config.store.history;
    let left = match plan.restart_at {
        None => here::run(&plan, stage, &name).await?,
        Some(at) => apart::run((&plan, at), stage, (&name, program)).await?,
    };
    let Some(left) = left else { return Ok(LoadEnd::Stopped) };
    let report = tokio::task::spawn_blocking(move || said(&plan, left, (&data, history)));
    tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop) => Ok(LoadEnd::Stopped),
        report = report => {
            let report = report.map_err(|error| LoadError::System("cannot count", error.into()))?;
            Ok(LoadEnd::Done(Box::new(report?)))
        }
    }
}

fn said(plan: &Plan, left: Left, (data, history): (&Path, History)) -> Result<Report, LoadError> {
    let Left { desk, totals, usage, restarts, memory_bytes } = left;
    let receipts = desk.receipts();
    let in_memory = plan.durability == Durability::Memory;
    let counted = match (in_memory, history) {
        (true, _) => Count { log_bytes: memory_bytes, ..in_sessions(&totals, &receipts) },
        (false, History::Keep) => events(data, &receipts)?,
        (false, History::Drop) => {
            let log_bytes = events(data, &[])?.log_bytes;
            Count { log_bytes, ..in_sessions(&totals, &receipts) }
        }
    };
    let (n_handled, elapsed_s) = desk.gauge.handled_in();
    let limit = match in_memory {
        true => None,
        false => limit_for(plan, data, elapsed_s)?,
    };
    let curve = |stage| desk.gauge.corrected(stage);
    let curves = Curves {
        receipt: curve(Reached::Receipt),
        accepted: curve(Reached::Accepted),
        handled: curve(Reached::Handled),
    };
    let figures = Figures {
        machine: Machine::here(data),
        sent: desk.gauge.n_started(),
        totals,
        measured: (n_handled, elapsed_s),
        limit,
        counted,
        errors: desk.gauge.errors(),
        latencies: desk.gauge.latencies(),
        series: desk.gauge.series(),
        usage,
        restarts,
        curves,
    };
    Ok(Report::new(plan, figures))
}

fn in_sessions(totals: &Totals, receipts: &[(u64, Vec<u64>)]) -> Count {
    let n_receipts = receipts.iter().map(|(last, failed)| last - failed.len() as u64).sum();
    count::in_sessions(totals, n_receipts)
}

fn events(data: &Path, receipts: &[(u64, Vec<u64>)]) -> Result<Count, LoadError> {
    count::in_events(data, receipts).map_err(|fault| Error::from(fault).into())
}

/// A fifth of the load's own time is enough to know the disk as it is at the moment. A load is told
/// of also where the disk has no room to be measured in.
fn limit_for(plan: &Plan, data: &Path, elapsed_s: f64) -> Result<Option<Limit>, LoadError> {
    let time = Duration::from_secs_f64((elapsed_s / 5.0).clamp(0.2, 2.0));
    match limit::measure(data, Work::of_bodies(plan.size, time)) {
        Err(error) if error.kind() == ErrorKind::StorageFull => Ok(None),
        limit => {
            limit.map(Some).map_err(|error| LoadError::System("cannot measure the disk", error))
        }
    }
}

/// The clock's side of a load, with its outlet.
pub(super) fn desk(plan: &Plan, outlet: super::desk::Outlet) -> Result<Arc<Desk>, LoadError> {
    let ramp_us = u64::try_from(plan.ramp.as_micros()).unwrap_or(u64::MAX);
    let gauge = Gauge::new(ramp_us).ok_or_else(|| {
        LoadError::System("cannot measure", std::io::Error::other("no histogram of these bounds"))
    })?;
    Ok(Arc::new(Desk::new(plan, gauge, outlet)))
}

/// How far a load is.
pub(super) fn told(plan: &Plan, desk: &Desk, scheduled: u64) -> Told {
    let total = match plan.span {
        Span::Messages(messages) => Some(messages),
        Span::Time(_) => plan.is_open().then_some(scheduled),
    };
    Told { total, queued: desk.gauge.n_started(), handled: desk.gauge.n_handled() }
}

/// The thread that follows the schedule. Dropped, it follows it no further.
pub(super) struct Pacing {
    stopped: Arc<AtomicBool>,
    /// Starts of the schedule.
    pub(super) count: u64,
}

impl Pacing {
    /// Starts the clock.
    pub(super) fn start(plan: &Plan, desk: &Arc<Desk>) -> Result<Self, LoadError> {
        let (pacer, desk) = (Pacer::new(plan), Arc::clone(desk));
        let stopped = Arc::new(AtomicBool::new(false));
        let (count, told) = (pacer.count(), Arc::clone(&stopped));
        let thread = std::thread::Builder::new().name("callboard-pacer".to_owned());
        thread
            .spawn(move || desk.follow(&pacer, &told))
            .map_err(|error| LoadError::System("the system gives no thread", error))?;
        Ok(Pacing { stopped, count })
    }
}

impl Drop for Pacing {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Waits until every message of the load is sent.
pub(super) async fn all_sent(desk: &Desk) {
    let mut looks = tokio::time::interval(Duration::from_millis(5));
    while !desk.all_sent() {
        looks.tick().await;
    }
}
