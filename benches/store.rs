//! The log store against one thread that appends the same bytes in groups with one flush a group:
//! 1,000 writers, each with one frame of 400 bytes on its way.
//!
//! `cargo bench --bench store [-- SECONDS]`
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a bench that cannot go on stops"
)]

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use callboard::config::{History, StoreConfig};
use callboard::error::Fault;
use callboard::persist::store::{
    Append, Load, NoPermit, Purpose, SnapshotsWanted, Store, Tickets, Urgency,
};
use callboard::persist::{LogStore, RealDisk};
use callboard::protocol::{SessionId, Timestamp};

const WRITERS: usize = 1_000;
const FRAME: usize = 400;
/// What a frame has beside its payload.
const OVERHEAD: usize = 68;

fn main() {
    let seconds = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(3);
    let time = Duration::from_secs(seconds);
    let dir = std::env::var_os("CALLBOARD_BENCH_DIR").map_or(std::env::temp_dir(), Into::into);
    for round in 0..3 {
        let limit = limit(&dir, time);
        let store = store(&dir, time);
        println!(
            "round {round}: limit {limit:.0} frames/s, store {store:.0} frames/s, ratio {:.2}",
            store / limit,
        );
    }
}

fn limit(dir: &std::path::Path, time: Duration) -> f64 {
    let dir = tempfile::tempdir_in(dir).unwrap();
    let path = dir.path().join("log");
    let file = OpenOptions::new().create_new(true).write(true).open(path).unwrap();
    let group = vec![b'x'; WRITERS * FRAME];
    let start = Instant::now();
    let mut n_groups = 0;
    while start.elapsed() < time {
        file.write_all_at(&group, n_groups * group.len() as u64).unwrap();
        file.sync_data().unwrap();
        n_groups += 1;
    }
    (n_groups as usize * WRITERS) as f64 / start.elapsed().as_secs_f64()
}

struct Nobody;

impl SnapshotsWanted for Nobody {
    fn wanted(&self, _: Vec<SessionId>) {}
}

/// The writers whose frames are on disk.
#[derive(Default)]
struct Idle {
    writers: Mutex<Vec<usize>>,
    more: Condvar,
}

struct Writer {
    number: usize,
    idle: Arc<Idle>,
}

impl Tickets for Writer {
    fn settled(&self, _: u64, _: u64, outcome: Result<(), Fault>) {
        outcome.unwrap();
        let mut writers = self.idle.writers.lock().unwrap();
        writers.push(self.number);
        if writers.len() == 1 {
            self.idle.more.notify_one();
        }
    }

    fn room(&self) {
        self.settled(0, 0, Ok(()));
    }
}

fn store(dir: &std::path::Path, time: Duration) -> f64 {
    let dir = tempfile::tempdir_in(dir).unwrap();
    let disk = Arc::new(RealDisk::new(dir.path().join("data")));
    let config = StoreConfig { history: History::Drop, ..StoreConfig::default() };
    let store = LogStore::open(disk, &config, Arc::new(Nobody)).unwrap();
    let idle = Arc::new(Idle::default());
    let loads: Vec<Load> = (0..WRITERS)
        .map(|number| {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&(number as u64).to_le_bytes());
            let tickets = Arc::new(Writer { number, idle: idle.clone() });
            store.begin(SessionId::from_bytes(id), tickets).unwrap()
        })
        .collect();
    let mut tickets = vec![0_u64; WRITERS];
    let mut ready: Vec<usize> = (0..WRITERS).collect();
    let payload = vec![b'x'; FRAME - OVERHEAD];
    let start = Instant::now();
    let mut n_frames = 0;
    while start.elapsed() < time {
        for writer in ready.drain(..) {
            let permit = match store.permit(loads[writer], payload.len(), Purpose::Settle) {
                Ok(permit) => permit,
                Err(NoPermit::Wait) => continue,
                Err(NoPermit::Fault(fault)) => {
                    eprintln!("{fault}");
                    return 0.0;
                }
            };
            tickets[writer] += 1;
            n_frames += 1;
            let append = Append {
                ticket: tickets[writer],
                payloads: vec![payload.clone()],
                snapshot: false,
                pending: true,
                urgency: Urgency::Now,
                time: Timestamp(0),
            };
            store.append(permit, append);
        }
        let mut writers = idle.writers.lock().unwrap();
        while writers.is_empty() {
            writers = idle.more.wait(writers).unwrap();
        }
        std::mem::swap(&mut *writers, &mut ready);
    }
    let rate = n_frames as f64 / start.elapsed().as_secs_f64();
    store.close().unwrap();
    rate
}
