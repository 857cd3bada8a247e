//! The store's frames per second against one thread that appends the same bytes in groups with one
//! flush a group: 1,000 writers with one append each on its way, payloads so large that a frame
//! takes 400 bytes. `cargo bench --bench store`.

mod measure;

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use callboard::config::StoreConfig;
use callboard::error::Fault;
use callboard::persist::store::{
    Append, Load, NoPermit, Payload, Purpose, SnapshotsWanted, Store, Tickets, Urgency,
};
use callboard::persist::{LogStore, RealDisk};
use callboard::protocol::{SessionId, Timestamp};
use callboard::sim::limit::{self, Work};

const WRITERS: usize = 1_000;
const FRAME: usize = 400;
/// What the journal puts around a payload: see `docs/journal.md`.
const OVERHEAD: usize = 68 + 20;
const TIME: Duration = Duration::from_secs(4);

fn main() -> Result<(), Box<dyn Error>> {
    let (mut ours, mut limits) = (Vec::new(), Vec::new());
    for _ in 0..measure::rounds() {
        let dir = measure::scratch()?;
        limits.push(
            limit::measure(dir.path(), Work { record: FRAME, group: WRITERS, time: TIME })?
                .records_per_s,
        );
        ours.push(frames_per_s()?);
    }
    let ratios: Vec<f64> = ours.iter().zip(&limits).map(|(ours, limit)| ours / limit).collect();
    println!("store: {WRITERS} writers, frames of {FRAME} bytes, one flush a group");
    println!("  frames/s       {:>12.0}", measure::median(ours));
    println!("  limit/s        {:>12.0}", measure::median(limits));
    println!("  ratio          {:>12.2}  (aim 0.80)", measure::median(ratios));
    Ok(())
}

/// Writers whose append is on disk and who may write again.
#[derive(Default)]
struct Done {
    writers: Mutex<Vec<usize>>,
    some: Condvar,
}

struct Writer {
    index: usize,
    done: Arc<Done>,
    flushed: Arc<AtomicU64>,
}

impl Writer {
    fn may_write(&self) {
        let mut writers = self.done.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.push(self.index);
        if writers.len() == 1 {
            self.done.some.notify_one();
        }
    }
}

impl Tickets for Writer {
    fn settled(&self, _load: u64, _ticket: u64, outcome: Result<(), Fault>) {
        if outcome.is_ok() {
            self.flushed.fetch_add(1, Ordering::Relaxed);
            self.may_write();
        }
    }

    fn room(&self) {
        self.may_write();
    }
}

struct NoSnapshots;

impl SnapshotsWanted for NoSnapshots {
    fn wanted(&self, _sessions: Vec<SessionId>) {}
}

fn frames_per_s() -> Result<f64, Box<dyn Error>> {
    let dir = measure::scratch()?;
    let disk = Arc::new(RealDisk::new(dir.path()));
    let store = LogStore::open(disk, &StoreConfig::default(), Arc::new(NoSnapshots))?;
    let (done, flushed) = (Arc::new(Done::default()), Arc::new(AtomicU64::new(0)));
    let mut loads = Vec::with_capacity(WRITERS);
    for index in 0..WRITERS {
        let (done, flushed) = (Arc::clone(&done), Arc::clone(&flushed));
        let session = SessionId::from_bytes((index as u128 + 1).to_be_bytes());
        loads.push((store.begin(session, Arc::new(Writer { index, done, flushed }))?, 0));
    }
    let began = Instant::now();
    let mut ready: Vec<usize> = (0..WRITERS).collect();
    while began.elapsed() < TIME {
        for index in ready.drain(..) {
            let (load, ticket) = loads.get_mut(index).ok_or("an unknown writer")?;
            if append(&store, *load, *ticket + 1)? {
                *ticket += 1;
            }
        }
        let writers = done.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut writers = done
            .some
            .wait_while(writers, |writers| writers.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *writers, &mut ready);
    }
    let reached = flushed.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
    store.close()?;
    Ok(reached)
}

/// Whether there was room; the writer is called otherwise.
fn append(store: &LogStore, load: Load, ticket: u64) -> Result<bool, Box<dyn Error>> {
    let payload = vec![b'a'; FRAME - OVERHEAD];
    let permit = match store.permit(load, payload.len(), Purpose::Settle) {
        Ok(permit) => permit,
        Err(NoPermit::Fault(fault)) => return Err(fault.into()),
        Err(NoPermit::Wait) => return Ok(false),
    };
    let append = Append {
        ticket,
        payload: Payload::Events(payload.into()),
        pending: false,
        urgency: Urgency::Now,
        time: Timestamp(0),
    };
    store.append(permit, append);
    Ok(true)
}
