//! The real log on the simulated disk: how crash tests open it, run it and look at what is left.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use callboard::Fault;
use callboard::config::{Durability, History, StoreConfig};
use callboard::persist::{LogStore, SimDisk};

use crate::script::Act;
use crate::truth::{Found, Promise, Truth, browse, survey};
use crate::writer::{Opened, Trouble, Wanted, Writer};

/// Sessions of a workload; the first is the supervisor's own stream.
pub(crate) const SEATS: usize = 4;

/// The smallest segments, and heads saved every few frames.
pub(crate) fn small(history: History) -> StoreConfig {
    StoreConfig {
        segment_bytes: 8_192,
        frame_max: 4_096,
        snapshot_every: 4,
        heads_every: 24 << 10,
        history,
        flush_every: Duration::from_millis(7),
        lazy_commit: Duration::from_millis(3),
        ..StoreConfig::default()
    }
}

/// `quick`, or `long` when `CALLBOARD_LONG=1` asks for the long loops.
pub(crate) fn quick_or_long<T>(quick: T, long: T) -> T {
    if std::env::var_os("CALLBOARD_LONG").is_some_and(|value| value == "1") { long } else { quick }
}

/// Opens the log for one process; its committer runs inline.
pub(crate) fn open(disk: &SimDisk, config: &StoreConfig) -> Result<Opened, Fault> {
    let wanted = Arc::new(Wanted::default());
    let store = LogStore::open_inline(Arc::new(disk.clone()), config, wanted.clone())?;
    let store = Arc::new(store);
    let log = store.clone();
    Ok(Opened { store, wanted, tick: Box::new(move |now| log.tick(now)) })
}

/// One process that opens the store and plays `acts`, until they or the disk end. What it was
/// promised goes into `truth`.
pub(crate) fn live(disk: &SimDisk, config: &StoreConfig, truth: Truth, acts: &[Act]) -> Lived {
    let truth = Arc::new(Mutex::new(truth));
    let mut writer = None;
    let trouble = match open(disk, config) {
        Err(fault) => Err(Trouble::Fault(fault)),
        Ok(opened) => Writer::new(opened, &truth).and_then(|made| writer.insert(made).play(acts)),
    };
    let truth = truth.lock().unwrap().clone();
    Lived { truth, trouble, writer }
}

/// What became of a process.
pub(crate) struct Lived {
    pub(crate) truth: Truth,
    pub(crate) trouble: Result<(), Trouble>,
    /// The opening, as it was left: neither closed nor dropped.
    pub(crate) writer: Option<Writer>,
}

impl Lived {
    /// The truth, if nothing but the disk kept the process from playing all.
    pub(crate) fn truth_unless_wrong(&self) -> Result<Truth, String> {
        match &self.trouble {
            Err(Trouble::Wrong(text)) => Err(text.clone()),
            Ok(()) | Err(Trouble::Fault(_)) => Ok(self.truth.clone()),
        }
    }
}

/// What a reopened store shows, if it is all that was promised, writable and sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recovered {
    pub(crate) found: Vec<Found>,
    pub(crate) run: u64,
    pub(crate) cut_bytes: u64,
}

/// Opens a disk that lost power or its process, judges what is there, and is killed. Gives the
/// disk as the next process finds it.
pub(crate) fn recover(
    disk: &SimDisk,
    config: &StoreConfig,
    truth: &Truth,
    promise: Promise,
) -> Result<(Recovered, SimDisk), String> {
    let opened = open(disk, config).map_err(|fault| format!("does not open: {fault}"))?;
    let report = opened.store.recovery();
    if report.read_only.is_some() || !report.quarantined.is_empty() {
        return Err(format!("a crash is no rot: {report:?}"));
    }
    if report.run <= truth.run_settled {
        let (run, settled) = (report.run, truth.run_settled);
        return Err(format!("run {run}, and receipts of run {settled} were given"));
    }
    if let Some(fault) = opened.store.fault() {
        return Err(format!("opened with a fault: {fault}"));
    }
    let found = survey(&*opened.store, truth, promise)?;
    browse(&*opened.store, truth, &found, config.history == History::Keep)?;
    let (run, cut_bytes) = (report.run, report.cut_bytes);
    Ok((Recovered { found, run, cut_bytes }, disk.kill()))
}

/// Recovers, loses power, recovers twice, then writes on and recovers again: what was found stays,
/// under rising runs.
pub(crate) fn recover_and_go_on(
    disk: &SimDisk,
    config: &StoreConfig,
    (truth, promise): (&Truth, Promise),
    acts: &[Act],
) -> Result<(), String> {
    let (first, disk) = recover(disk, config, truth, promise)?;
    // After a failed flush, or a kill, the cache may have shown what the disk did not hold.
    let unpowered = SimDisk::from_image(&disk.image()).crash(|_| 0);
    let (left, _) = recover(&unpowered, config, truth, promise)?;
    same(&first, &left).map_err(|text| format!("what was shown is not on disk: {text}"))?;
    let again = recover(&disk, config, truth, promise);
    let (second, disk) = again.map_err(|text| format!("again: {text}"))?;
    same(&first, &second)?;
    if second.cut_bytes > 0 {
        return Err(format!("{} bytes were to be cut again", second.cut_bytes));
    }
    let mut truth = truth.clone();
    for (seat, found) in second.found.iter().enumerate() {
        truth.adopt(seat, found);
    }
    let lived = live(&disk, config, truth, acts);
    let truth = lived.truth_unless_wrong().map_err(|text| format!("going on: {text}"))?;
    if let Err(Trouble::Fault(fault)) = &lived.trouble {
        return Err(format!("going on: {fault}"));
    }
    let disk = match config.durability {
        Durability::Sync => disk.crash(|_| 0),
        Durability::Written | Durability::Memory => disk.kill(),
    };
    let third = recover(&disk, config, &truth, Promise::Settled);
    third.map(drop).map_err(|text| format!("after going on: {text}"))
}

/// Whether two recoveries show the same, the second under no lower run.
pub(crate) fn same(first: &Recovered, second: &Recovered) -> Result<(), String> {
    for (seat, (before, after)) in first.found.iter().zip(&second.found).enumerate() {
        if before != after {
            let (before, after) = (before.n_events, after.n_events);
            return Err(format!("seat {seat}: {before} events, then {after}, or other frames"));
        }
    }
    if second.run < first.run {
        return Err(format!("run {} after run {}", second.run, first.run));
    }
    Ok(())
}
