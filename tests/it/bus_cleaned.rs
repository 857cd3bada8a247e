//! A log that is cleaned while the bus runs: how much of it stays, and what a start reads of it.

use std::path::Path;

use callboard::bus::{Bus, Recovery};
use callboard::config::History;
use callboard::persist::RealDisk;
use callboard::protocol::{Draft, SessionId};
use callboard::{Config, Durability, Error};

use crate::house;

const SESSIONS: usize = 20;
const BODY: usize = 256;
/// What a message takes in the log, at least: it is there twice.
const MESSAGE: u64 = 2 * BODY as u64;

/// Segments and the heads' interval; with `CALLBOARD_LONG` as large as in earnest.
struct Sizes {
    segment: u64,
    heads: u64,
}

fn sizes() -> Sizes {
    match std::env::var_os("CALLBOARD_LONG") {
        Some(_) => Sizes { segment: 1 << 20, heads: 4 << 20 },
        None => Sizes { segment: 64 << 10, heads: 256 << 10 },
    }
}

async fn open(dir: &Path, sizes: &Sizes) -> Result<Bus, Error> {
    let mut config: Config = house::config(Durability::Written);
    config.limits.pending_max = 1_000;
    config.limits.message_max = 4 << 10;
    config.store.segment_bytes = sizes.segment;
    config.store.frame_max = sizes.segment as usize / 2;
    config.store.heads_every = sizes.heads;
    config.store.snapshot_every = 32;
    config.store.history = History::Drop;
    house::open(std::sync::Arc::new(RealDisk::new(dir)), config).await
}

async fn people(bus: &Bus) -> Result<Vec<SessionId>, Error> {
    let mut ids = Vec::new();
    for n in 0..SESSIONS {
        ids.push(house::create(bus, &format!("p{n}"), "sink").await?);
    }
    bus.group(&house::label("all-of-them"), &ids).await?;
    Ok(ids)
}

/// Sends round the ring until the bodies alone have filled so many bytes of log.
async fn write(bus: &Bus, ids: &[SessionId], bytes: u64) -> Result<(), Error> {
    let mut written = 0;
    while written < bytes {
        let mut sends = tokio::task::JoinSet::new();
        for (from, to) in ids.iter().zip(ids.iter().cycle().skip(1)) {
            let (bus, from, to) = (bus.clone(), *from, *to);
            sends.spawn(async move {
                bus.send_when_room(from, Draft::text(to, "x".repeat(BODY))).await
            });
            written += MESSAGE;
        }
        for receipt in sends.join_all().await {
            receipt?;
        }
    }
    bus.quiet().await
}

/// Opens a copy of the directory as a kill would have left it.
async fn killed(dir: &Path, sizes: &Sizes) -> Result<Recovery, Error> {
    let copy = tempfile::tempdir().unwrap();
    copy_files(dir, copy.path());
    let bus = open(copy.path(), sizes).await?;
    let recovery = bus.recovery();
    bus.shut_down().await?;
    Ok(recovery)
}

fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy_files(&entry.path(), &target);
        } else if std::fs::copy(entry.path(), &target).is_err() {
            // The keeper may have renamed or removed it since the directory was listed.
            assert!(!entry.path().exists(), "{} cannot be copied", entry.path().display());
        }
    }
}

fn bytes_in(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(of) if of.is_dir() => bytes_in(&entry.path()),
            Ok(of) => of.len(),
            Err(_) => 0,
        })
        .sum()
}

#[test]
fn m61_f22_ten_times_the_history_takes_no_more_disk_and_no_longer_start() {
    let sizes = sizes();
    let dir = tempfile::tempdir().unwrap();
    house::run(async {
        let bus = open(dir.path(), &sizes).await?;
        let ids = people(&bus).await?;
        write(&bus, &ids, 2 * sizes.heads).await?;
        let (once, bytes_once) = (killed(dir.path(), &sizes).await?, bytes_in(dir.path()));
        write(&bus, &ids, 18 * sizes.heads).await?;
        let (ten, bytes_ten) = (killed(dir.path(), &sizes).await?, bytes_in(dir.path()));
        let counts = bus.inspect(ids[0]).await?.counts;
        bus.shut_down().await?;

        let written = 20 * sizes.heads;
        assert!(bytes_ten < written / 2, "{bytes_ten} of {written} bytes are still there");
        // One interval and what is written while the heads are being saved, what a segment's end
        // may add to it, and the snapshots.
        let bound = 2 * sizes.heads + 2 * sizes.segment + SESSIONS as u64 * 16_384;
        for (times, recovery) in [(1, &once), (10, &ten)] {
            let read = recovery.store.bytes_read;
            assert!(read <= bound, "{times} x history: {read} bytes read, {bound} allowed");
        }
        println!("disk: {bytes_once} then {bytes_ten}; read: {:?} then {:?}", once, ten);

        let again = open(dir.path(), &sizes).await?;
        assert_eq!(again.inspect(ids[0]).await?.counts, counts);
        again.shut_down().await
    })
    .unwrap();
}
