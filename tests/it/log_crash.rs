//! The log store through crashes at every call to the disk, with everything small.

use callboard::config::{Durability, History, StoreConfig};
use callboard::persist::SimDisk;
use callboard::persist::log::{LogReader, LogStore};
use callboard::persist::store::{Purpose, Store, Urgency};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::log_world::{Session, id, small, try_inline};

const SESSIONS: u8 = 3;

/// What each session was told of: how many frames were handed over, how many are on disk.
#[derive(Debug, Default, Clone)]
struct Model {
    sent: BTreeMap<u8, u64>,
    settled: BTreeMap<u8, u64>,
}

impl Model {
    /// Reads every session back; what was on disk must be there, in order, and nothing else.
    fn check(&mut self, store: &dyn Store, context: &str) {
        for n in 0..SESSIONS {
            let replay = store.replay(id(n)).unwrap_or_else(|fault| panic!("{context}: {fault}"));
            let text = replay.snapshot.concat();
            let mut count = match text.split(|byte| *byte == b' ').next() {
                Some(first) if !text.is_empty() => {
                    std::str::from_utf8(first).unwrap().parse::<u64>().unwrap()
                }
                _ => 0,
            };
            for frame in &replay.frames {
                count += 1;
                let text = String::from_utf8(frame.payload.clone()).unwrap();
                assert!(text.starts_with(&format!("[{count},")), "{context}: {text} for {count}");
            }
            let settled = self.settled.get(&n).copied().unwrap_or(0);
            let sent = self.sent.get(&n).copied().unwrap_or(0);
            assert!(settled <= count, "{context}: session {n} has {count} of {settled}");
            assert!(count <= sent, "{context}: session {n} has {count} of {sent}");
            self.settled.insert(n, count);
            self.sent.insert(n, count);
        }
    }

    /// Appends, snapshots and ends loads until done or until the disk is gone.
    fn work(&mut self, store: &dyn Store, rounds: u64) {
        let mut sessions: Vec<Session> =
            (0..SESSIONS).map(|n| Session::begin(store, id(n))).collect();
        let mut counts: Vec<u64> =
            (0..SESSIONS).map(|n| self.sent.get(&n).copied().unwrap_or(0)).collect();
        let mut tickets: BTreeMap<(u8, u64), u64> = BTreeMap::new();
        for round in 0..rounds {
            for n in 0..SESSIONS {
                let session = &mut sessions[n as usize];
                let count = &mut counts[n as usize];
                if round % 5 == u64::from(n) && *count > 0 {
                    let (first, rest) = (format!("{count} "), "s".repeat(900));
                    if let Ok(ticket) =
                        session.snapshot(store, &[first.as_bytes(), rest.as_bytes()])
                    {
                        tickets.insert((n, ticket), *count);
                    }
                }
                let text = format!("[{},\"{}\"]", *count + 1, "x".repeat(300 * n as usize));
                let urgency = if n == 2 { Urgency::Lazy } else { Urgency::Now };
                self.sent.insert(n, *count + 1);
                if let Ok(ticket) =
                    session.try_append(store, text.as_bytes(), (Purpose::Settle, urgency))
                {
                    *count += 1;
                    tickets.insert((n, ticket), *count);
                }
                for m in 0..SESSIONS {
                    let session = &sessions[m as usize];
                    let state = session.told.now();
                    if let Some(ticket) = state.settled.get(&session.load.number)
                        && let Some(count) = tickets.get(&(m, *ticket))
                    {
                        self.settled.insert(m, *count);
                    }
                }
            }
        }
    }
}

fn verify_clean(disk: &SimDisk, context: &str) {
    let report = LogReader::open(Arc::new(disk.clone())).unwrap().verify().unwrap();
    assert_eq!(report.damage, [], "{context}");
}

fn open(disk: &SimDisk, config: &StoreConfig, context: &str) -> LogStore {
    let store = try_inline(disk, config).unwrap_or_else(|fault| panic!("{context}: {fault}"));
    let report = store.recovery();
    assert_eq!(report.read_only, None, "{context}");
    assert_eq!(report.quarantined, [], "{context}");
    store
}

/// Crashes at every `step`-th call of a workload, and once more at a call of the recovery.
fn crash_everywhere(config: &StoreConfig, step: u64, kill: bool) {
    let fresh = SimDisk::new();
    let mut model = Model::default();
    let store = open(&fresh, config, "no crash");
    model.work(&store, 12);
    model.check(&store, "no crash");
    store.close().unwrap();
    drop(store);
    verify_clean(&fresh, "no crash");
    let calls = fresh.calls();
    let crash = |disk: &SimDisk, seed| if kill { disk.kill() } else { disk.crash_seeded(seed) };
    for call in (1..=calls).step_by(step as usize) {
        let context = format!("crash at call {call} of {calls}, kill {kill}");
        let disk = SimDisk::new();
        disk.stop_at(Some(call));
        let mut model = Model::default();
        if let Ok(store) = try_inline(&disk, config) {
            model.work(&store, 12);
            drop(store.close());
        }
        let mut disk = crash(&disk, call);
        disk.stop_at(None);
        // Recovery is interrupted too, and then once more.
        for again in 1..3 {
            let before = disk.calls();
            disk.stop_at(Some(before + 1 + (call * again * 7) % 40));
            drop(try_inline(&disk, config));
            disk = crash(&disk, call + again);
            disk.stop_at(None);
        }
        let store = open(&disk, config, &context);
        model.check(&store, &context);
        model.work(&store, 4);
        model.check(&store, &context);
        drop(store);
        let disk = crash(&disk, call);
        let store = open(&disk, config, &context);
        model.check(&store, &context);
        store.close().unwrap();
        drop(store);
        verify_clean(&disk, &context);
    }
}

#[test]
fn m56_a_power_loss_at_any_call_keeps_what_was_settled() {
    crash_everywhere(&small(), 1, false);
    let config = StoreConfig { history: History::Drop, heads_every: 4_096, ..small() };
    crash_everywhere(&config, 1, false);
}

#[test]
fn f39_a_kill_at_any_call_keeps_what_was_settled() {
    crash_everywhere(&small(), 1, true);
    let config = StoreConfig { durability: Durability::Written, ..small() };
    crash_everywhere(&config, 1, true);
}
