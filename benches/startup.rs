//! Start-up with ten times the history: the time to open a bus and the bytes it reads.
//! `cargo bench --bench startup`.
//!
//! 200 sessions in a ring, bodies of 256 bytes, segments of 1 MiB, heads every 4 MiB, freed
//! segments dropped. One history is 12 MiB of log, above the heads' interval; the other ten times
//! that. The bus is stopped as by a kill: it is dropped without a word, on a copy of its directory.

mod measure;

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use callboard::Config;
use callboard::bus::Bus;
use callboard::config::History;
use callboard::protocol::Draft;

const SESSIONS: usize = 200;
const BODY: usize = 256;
const HISTORY: u64 = 12 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut figures = Vec::new();
    for times in [1, 10] {
        let dir = measure::scratch()?;
        let written = runtime.block_on(write(&dir.path().join("data"), times * HISTORY))?;
        let (mut opened, mut read) = (Vec::new(), 0);
        for _ in 0..measure::rounds() {
            let copy = measure::scratch()?;
            measure::copy(&dir.path().join("killed"), copy.path())?;
            let began = Instant::now();
            let bus = runtime.block_on(open(copy.path()))?;
            opened.push(began.elapsed().as_secs_f64());
            read = bus.recovery().store.bytes_read;
            runtime.block_on(bus.shut_down())?;
        }
        figures.push((times, written, measure::median(opened), read));
    }
    println!("start-up: {SESSIONS} sessions, heads every 4 MiB, segments of 1 MiB");
    for (times, written, seconds, read) in &figures {
        println!(
            "  {times:>2} x history: {written:>11} bytes written, {read:>9} read, {seconds:.4} s"
        );
    }
    if let [(_, _, one, _), (_, _, ten, _)] = figures[..] {
        println!("  ratio of times {:>12.2}  (aim 1.20)", ten / one);
    }
    Ok(())
}

async fn open(dir: &Path) -> Result<Bus, callboard::Error> {
    let mut config = Config::default();
    config.limits.pending_max = 1_000;
    config.store.segment_bytes = 1 << 20;
    config.store.frame_max = 256 << 10;
    config.store.heads_every = 4 << 20;
    config.store.history = History::Drop;
    measure::with_sink(Bus::builder().data_dir(dir).config(config)).open().await
}

/// Writes that many bytes of log, then copies the directory as it is while the bus runs.
async fn write(dir: &Path, bytes: u64) -> Result<u64, Box<dyn Error>> {
    let bus = open(dir).await?;
    let ids = measure::people(&bus, SESSIONS).await?;
    let per_round = (SESSIONS * 2 * 400) as u64;
    for _ in 0..bytes / per_round {
        let mut sends = tokio::task::JoinSet::new();
        for (from, to) in ids.iter().zip(ids.iter().cycle().skip(1)) {
            let (bus, from, to) = (bus.clone(), *from, *to);
            let draft = Draft::text(to, "x".repeat(BODY));
            sends.spawn(async move { bus.send_when_room(from, draft).await });
        }
        sends.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()?;
    }
    bus.quiet().await?;
    let killed = dir.with_file_name("killed");
    std::fs::create_dir_all(&killed)?;
    measure::copy(dir, &killed)?;
    let written = bytes / per_round * per_round;
    bus.shut_down().await?;
    Ok(written)
}
