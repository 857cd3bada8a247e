//! Durable messages end to end against the disk's own limit, and a lone sender's latency in flush
//! times. `cargo bench --bench durable`.
//!
//! 1,000 sessions in a ring, bodies of 256 bytes, closed loop: each session sends again when it
//! has its receipt and its target has room. A message counts when it is handled: receipt,
//! acceptance and handling are each on disk then. The limit is one thread that writes two records
//! of 400 bytes a message in groups of 1,000, with one flush a group.

mod measure;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use callboard::bus::{Bus, Observer};
use callboard::config::History;
use callboard::protocol::{Draft, Message};
use callboard::sim::limit::{self, Work};
use callboard::{Config, Durability};
use tokio::sync::mpsc;

const SESSIONS: usize = 1_000;
const BODY: usize = 256;
const TIME: Duration = Duration::from_secs(6);
const LONE: usize = 300;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut ours, mut limits, mut lone, mut flushes) = (vec![], vec![], vec![], vec![]);
    for _ in 0..measure::rounds() {
        let dir = measure::scratch()?;
        limits.push(limit::measure(dir.path(), Work::of_bodies(BODY, TIME))?.messages_per_s);
        let alone = Work { group: 1, ..Work::of_bodies(BODY, TIME / 6) };
        flushes.push(limit::measure(dir.path(), alone)?.group_p50_us as f64 / 1e6);
        ours.push(runtime.block_on(messages_per_s(dir.path()))?);
        let dir = measure::scratch()?;
        lone.push(runtime.block_on(lone_sender(dir.path()))?.as_secs_f64());
    }
    let ratios = ours.iter().zip(&limits).map(|(ours, limit)| ours / limit).collect();
    let times = lone.iter().zip(&flushes).map(|(lone, flush)| lone / flush).collect();
    println!("durable: {SESSIONS} sessions, bodies of {BODY} bytes, closed loop");
    println!("  messages/s     {:>12.0}", measure::median(ours));
    println!("  limit/s        {:>12.0}", measure::median(limits));
    println!("  ratio          {:>12.2}  (floor 0.25, goal 0.70)", measure::median(ratios));
    println!("lone sender: send to accepted, p50");
    println!("  microseconds   {:>12.0}", measure::median(lone) * 1e6);
    println!("  flush, p50     {:>12.0}", measure::median(flushes) * 1e6);
    println!("  flush times    {:>12.2}  (aim 4)", measure::median(times));
    Ok(())
}

async fn open(dir: &Path, observer: Option<Arc<dyn Observer>>) -> Result<Bus, callboard::Error> {
    let mut config = Config::default();
    config.store.durability = Durability::Sync;
    config.store.history = History::Drop;
    let builder = measure::with_sink(Bus::builder().data_dir(dir.join("data")).config(config));
    match observer {
        Some(observer) => builder.observe(observer).open().await,
        None => builder.open().await,
    }
}

async fn messages_per_s(dir: &Path) -> Result<f64, Box<dyn Error>> {
    let bus = open(dir, None).await?;
    let ids = measure::people(&bus, SESSIONS).await?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut senders = tokio::task::JoinSet::new();
    let began = Instant::now();
    for (from, to) in ids.iter().zip(ids.iter().cycle().skip(1)) {
        let (bus, stop, from, to) = (bus.clone(), Arc::clone(&stop), *from, *to);
        senders.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                bus.send_when_room(from, Draft::text(to, "x".repeat(BODY))).await?;
            }
            Ok::<(), callboard::Error>(())
        });
    }
    tokio::time::sleep(TIME).await;
    let reached = bus.progress().handled as f64 / began.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    senders.join_all().await.into_iter().collect::<Result<(), _>>()?;
    bus.quiet().await?;
    bus.shut_down().await?;
    Ok(reached)
}

struct Accepted(mpsc::UnboundedSender<Instant>);

impl Observer for Accepted {
    fn accepted(&self, _message: &Message) {
        // The bench may have ended; then nobody asks any more.
        self.0.send(Instant::now()).unwrap_or_default();
    }
}

async fn lone_sender(dir: &Path) -> Result<Duration, Box<dyn Error>> {
    let (seen, mut accepted) = mpsc::unbounded_channel();
    let bus = open(dir, Some(Arc::new(Accepted(seen)))).await?;
    let ids = measure::people(&bus, 2).await?;
    let [from, to] = ids[..] else { return Err("two sessions were asked for".into()) };
    let mut times = Vec::new();
    for _ in 0..LONE {
        let began = Instant::now();
        bus.send(from, Draft::text(to, "x".repeat(BODY))).await?;
        let at = accepted.recv().await.ok_or("the bus ended")?;
        times.push(at - began);
        bus.quiet().await?;
    }
    bus.shut_down().await?;
    times.sort_unstable();
    Ok(times.get(times.len() / 2).copied().unwrap_or_default())
}
