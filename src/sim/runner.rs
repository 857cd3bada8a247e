//! What the runs of traces and of scenarios share: opening, watching, stopping, summing up.
//!
//! **Invariant**: a run ends in a summary with all quiet, in an orderly stop, or in an error; the
//! bus is shut down in each case.

use std::future::{Future, pending};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::crowd;
use super::meter::Meter;
use super::seats;
use super::summary::{Recovery, Summary};
use crate::agents;
use crate::bus::{Bus, Origin};
use crate::config::{Config, Durability};
use crate::error::Error;
use crate::protocol::session::state::Counts;

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// Damaged sessions that are named.
const SHOWN_MAX: usize = 8;

/// Where a run lives and how it is watched.
pub struct Stage {
    /// The data directory; not used in `memory` durability.
    pub data: PathBuf,
    /// Every limit.
    pub config: Config,
    /// Becomes true when the run is to stop.
    pub stop: watch::Receiver<bool>,
    /// Is told how far the run is, now and then.
    pub tell: Box<dyn Fn(Told)>,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Told {
    /// Messages that will be sent; unknown in a scenario.
    pub total: Option<u64>,
    /// Messages queued so far, in this run and before.
    pub queued: u64,
    /// Messages handled by this process.
    pub handled: u64,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// Everything is sent and all is quiet.
    Quiet(Box<Summary>),
    /// It was stopped; with the same data directory it goes on.
    Stopped,
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The bus said no.
    #[error("{0}")]
    Bus(#[from] Error),
    /// A receipt could not be written down.
    #[error("a receipt cannot be written down: {0}")]
    Receipt(std::io::Error),
    /// The file for the receipts cannot be opened.
    #[error("cannot write receipts to {}: {error}", .path.display())]
    Receipts {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// Sessions of the run cannot go on: it would never be quiet, or not be whole.
    #[error(
        "{0} of its sessions cannot go on: damaged, failed or without an agent; nothing more is \
         sent, and `callboard journal verify` says what is damaged"
    )]
    Stranded(u64),
    /// Sessions of the directory are damaged; their labels.
    #[error(
        "it cannot go on: the journals of these sessions are damaged: {0}; nothing more is sent, \
         and `callboard journal verify` says where"
    )]
    Damaged(String),
}

impl From<crate::error::Refused> for RunError {
    fn from(refused: crate::error::Refused) -> Self {
        RunError::Bus(refused.into())
    }
}

/// What a run does once its bus is open: makes sessions and sends.
pub(super) trait Play {
    /// What the data directory is for.
    fn origin(&self) -> Origin;
    /// Makes what is missing; gives the messages that will be sent and those that were already.
    async fn prepare(&mut self, bus: &Bus) -> Result<(Option<u64>, u64), RunError>;
    /// Sends what is left.
    async fn send(&mut self, bus: &Bus) -> Result<(), RunError>;
}

/// Opens the bus, plays, waits for quiet and sums up.
pub(super) async fn run(
    stage: Stage,
    meter: Arc<Meter>,
    mut play: impl Play,
) -> Result<End, RunError> {
    let Stage { data, config, mut stop, tell } = stage;
    let mut builder = agents::install(Bus::builder()).observe(Arc::clone(&meter) as _);
    builder = builder.dedicate(play.origin());
    if config.store.durability != Durability::Memory {
        builder = builder.data_dir(data);
    }
    let opened = Instant::now();
    let bus = builder.config(config).open().await?;
    let end = tokio::select! {
        biased;
        () = stopped(&mut stop) => Ok(End::Stopped),
        end = played(&bus, &meter, &mut play, opened, tell.as_ref()) => end,
    };
    let shut = bus.shut_down().await;
    let end = end?;
    shut?;
    Ok(end)
}

pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        pending().await
    }
}

async fn played(
    bus: &Bus,
    meter: &Meter,
    play: &mut impl Play,
    opened: Instant,
    tell: &dyn Fn(Told),
) -> Result<End, RunError> {
    let recovery = recovery(bus);
    undamaged(bus).await?;
    let (total, before) = play.prepare(bus).await?;
    let started = if before == 0 { Instant::now() } else { opened };
    let sent = async {
        play.send(bus).await?;
        bus.quiet().await?;
        Ok(())
    };
    told(sent, || {
        let progress = bus.progress();
        tell(Told { total, queued: before + progress.queued, handled: progress.handled });
        able(bus)
    })
    .await?;
    let elapsed = started.elapsed();
    Ok(End::Quiet(Box::new(summed_up(bus, meter, (elapsed, recovery)).await?)))
}

/// Whether every session can be read; those that cannot are named.
async fn undamaged(bus: &Bus) -> Result<(), RunError> {
    let quarantined = bus.recovery().store.quarantined;
    if quarantined.is_empty() {
        return Ok(());
    }
    let records = bus.list().await?;
    let shown = quarantined.iter().take(SHOWN_MAX).map(|id| {
        let record = records.iter().find(|record| record.created.id == *id);
        record.map_or_else(|| id.to_string(), |record| format!("`{}`", record.created.label))
    });
    let mut shown: Vec<String> = shown.collect();
    if quarantined.len() > SHOWN_MAX {
        shown.push(format!("and {} more", quarantined.len() - SHOWN_MAX));
    }
    Err(RunError::Damaged(shown.join(", ")))
}

/// Whether the run can still come to its end: what cannot go on keeps the others waiting.
pub(super) fn able(bus: &Bus) -> Result<(), RunError> {
    bus.fault().map_or(Ok(()), |fault| Err(Error::from(fault)))?;
    unstranded(bus.n_stranded())
}

fn unstranded(count: u64) -> Result<(), RunError> {
    if count > 0 { Err(RunError::Stranded(count)) } else { Ok(()) }
}

/// Waits for `done` and tells meanwhile; where telling finds that it cannot come, no longer.
pub(super) async fn told<E>(
    done: impl Future<Output = Result<(), E>>,
    tell: impl Fn() -> Result<(), E>,
) -> Result<(), E> {
    let mut ticks = interval(TELL_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::pin!(done);
    loop {
        tokio::select! {
            outcome = &mut done => {
                outcome?;
                return tell();
            }
            _ = ticks.tick() => tell()?,
        }
    }
}

async fn summed_up(
    bus: &Bus,
    meter: &Meter,
    (elapsed, recovery): (Duration, Recovery),
) -> Result<Summary, Error> {
    let ids = seats::made(bus).await?;
    let sessions = ids.len() as u64;
    let inspections = crowd::for_each(ids, |id| {
        let bus = bus.clone();
        async move { bus.inspect(id).await }
    });
    let mut counts = Counts::default();
    for inspection in inspections.await? {
        counts.queued += inspection.counts.queued;
        counts.accepted += inspection.counts.accepted;
        counts.handled += inspection.counts.handled;
        counts.dead += inspection.counts.dead;
        counts.refused += inspection.counts.refused;
    }
    let progress = bus.progress();
    let seconds = elapsed.as_secs_f64();
    Ok(Summary {
        sessions,
        queued: counts.queued,
        accepted: counts.accepted,
        handled: counts.handled,
        dead: counts.dead,
        refused: counts.refused,
        duplicates: progress.duplicates,
        elapsed_s: (seconds * 1e6).round() / 1e6,
        messages_per_s: (progress.handled as f64 / seconds.max(1e-6)).round(),
        latency_us: meter.latency(),
        journal_bytes: bus.journal_bytes(),
        recovery,
    })
}

/// What opening did, before anything else is read.
fn recovery(bus: &Bus) -> Recovery {
    let recovery = bus.recovery();
    let report = recovery.store;
    Recovery {
        groups: report.groups,
        frames: report.frames,
        bytes_read: report.bytes_read,
        cut_bytes: report.cut_bytes,
        quarantined: report.quarantined.len() as u64,
        resumed: recovery.resumed,
    }
}
