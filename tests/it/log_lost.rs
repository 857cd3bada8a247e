//! Segments that lost their length or are gone altogether, in a log with freed segments between
//! those in use: nothing that was promised is missing without a word.

use std::sync::Arc;

use callboard::config::{History, StoreConfig};
use callboard::error::Code;
use callboard::persist::log::{LogReader, LogStore};
use callboard::persist::store::Store;
use callboard::persist::{Disk, SimDisk};

use crate::log_world::{Session, id, inline, payloads, small};

const SECTOR: usize = 512;

/// What became of the saved heads.
#[derive(Debug, Clone, Copy)]
enum HeadsFile {
    Saved,
    Missing,
    OfAnEarlierTime,
}

/// A log of several segments in use, and what is in it.
struct Log {
    disk: SimDisk,
    config: StoreConfig,
    early_heads: Vec<u8>,
    before: Vec<(u8, Vec<String>)>,
}

/// Writes and snapshots until the segments before this call are freed, as far as nobody needs
/// them.
fn go_on(disk: &SimDisk, store: &LogStore, busy: &mut Session) {
    let newest = disk.list("log").unwrap().into_iter().max().unwrap();
    let mut n = 0;
    while disk.list("log").unwrap().contains(&newest) {
        busy.put(store, format!("[{n}]").as_bytes());
        busy.snapshot(store, &[b"state"]).unwrap();
        n += 1;
        assert!(n < 100, "the cleaner frees nothing");
    }
}

impl Log {
    /// Sessions that write once and fall silent, each in a segment of its own, between those that
    /// were freed.
    fn new(history: History, close: bool) -> Log {
        let config = StoreConfig { history, ..small() };
        let disk = SimDisk::new();
        let store = inline(&disk, &config);
        let mut busy = Session::begin(&store, id(9));
        let mut early_heads = Vec::new();
        for n in 1..=4 {
            Session::begin(&store, id(n)).put(&store, format!("[\"of {n}\"]").as_bytes());
            go_on(&disk, &store, &mut busy);
            if n == 2 {
                early_heads = disk.files()["heads"].clone();
            }
        }
        Session::begin(&store, id(5)).put(&store, b"[\"of 5\"]");
        let sessions = [1, 2, 3, 4, 5, 9];
        let before =
            sessions.map(|n| (n, payloads(&store.replay(id(n)).unwrap()))).into_iter().collect();
        if close {
            store.close().unwrap();
        }
        drop(store);
        Log { disk: disk.kill(), config, early_heads, before }
    }

    /// A copy to be damaged.
    fn copy(&self, heads: HeadsFile) -> SimDisk {
        let disk = SimDisk::from_image(&self.disk.image());
        match heads {
            HeadsFile::Saved => {}
            HeadsFile::Missing => disk.remove("heads").unwrap(),
            HeadsFile::OfAnEarlierTime => disk.put("heads", &self.early_heads),
        }
        disk
    }

    /// Everything is read as it was written, or its session is quarantined, or the store is
    /// read-only and says so; verification says so too. Whether anything was amiss.
    fn judge(&self, disk: &SimDisk) -> Result<bool, String> {
        let seen = LogReader::open(Arc::new(disk.clone())).unwrap().verify().unwrap();
        let store = inline(disk, &self.config);
        let amiss = match store.fault() {
            Some(fault) if fault.code != Code::JournalCorrupt => return Err(fault.to_string()),
            Some(_) => true,
            None => {
                let mut amiss = false;
                for (n, was) in &self.before {
                    match store.replay(id(*n)) {
                        Err(fault) if fault.code == Code::JournalCorrupt => amiss = true,
                        Err(fault) => return Err(fault.to_string()),
                        Ok(replay) if payloads(&replay) == *was => {}
                        Ok(replay) => {
                            return Err(format!("{n} lost something: {:?}", payloads(&replay)));
                        }
                    }
                }
                amiss
            }
        };
        if amiss && seen.damage.is_empty() {
            return Err("verification found nothing".into());
        }
        Ok(amiss)
    }
}

fn every_loss(history: History, close: bool, heads: HeadsFile) {
    let log = Log::new(history, close);
    assert_eq!(log.judge(&log.copy(heads)), Ok(false), "nothing is damaged");
    let paths: Vec<_> =
        log.disk.list("log").unwrap().into_iter().map(|name| format!("log/{name}")).collect();
    assert!(paths.len() > 5, "{paths:?}");
    let mut n_amiss = 0;
    for (place, path) in paths.iter().enumerate() {
        let lens = (0..log.config.segment_bytes as usize).step_by(SECTOR);
        for len in lens.map(Some).chain([None]) {
            let context = format!("{history:?} closed {close} heads {heads:?}: {path} {len:?}");
            let disk = log.copy(heads);
            match len {
                Some(len) => disk.set_len(path, len),
                // Nothing tells that a segment was ever made after the last.
                None if place + 1 == paths.len() => continue,
                None => disk.remove(path).unwrap(),
            }
            let amiss = log.judge(&disk).unwrap_or_else(|text| panic!("{context}: {text}"));
            n_amiss += usize::from(amiss);
        }
    }
    assert!(n_amiss > paths.len(), "only {n_amiss} losses were seen");
}

#[test]
fn f36_f41_no_lost_segment_is_taken_for_a_freed_one_where_heads_were_saved() {
    every_loss(History::Drop, true, HeadsFile::Saved);
    every_loss(History::Drop, false, HeadsFile::Saved);
    every_loss(History::Keep, false, HeadsFile::Saved);
}

#[test]
fn f36_f41_no_lost_segment_is_taken_for_a_freed_one_where_the_heads_are_gone() {
    every_loss(History::Drop, true, HeadsFile::Missing);
    every_loss(History::Drop, false, HeadsFile::Missing);
    every_loss(History::Keep, false, HeadsFile::Missing);
}

#[test]
fn f36_f41_no_lost_segment_is_taken_for_a_freed_one_where_the_heads_are_old() {
    every_loss(History::Drop, true, HeadsFile::OfAnEarlierTime);
    every_loss(History::Drop, false, HeadsFile::OfAnEarlierTime);
    every_loss(History::Keep, false, HeadsFile::OfAnEarlierTime);
}
