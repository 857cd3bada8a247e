//! What the committer decides by itself, looked at between its calls.

use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::room::Room;
use super::store::LogStore;
use crate::config::{Durability, StoreConfig};
use crate::error::{Code, Fault};
use crate::persist::SimDisk;
use crate::persist::store::{Append, Payload, Purpose, SnapshotsWanted, Store, Tickets, Urgency};
use crate::protocol::{SessionId, Timestamp};

struct Silent;

impl Tickets for Silent {
    fn settled(&self, _: u64, _: u64, _: Result<(), Fault>) {}
    fn room(&self) {}
}

impl SnapshotsWanted for Silent {
    fn wanted(&self, _: Vec<SessionId>) {}
}

fn open(durability: Durability) -> LogStore {
    let config = StoreConfig {
        durability,
        segment_bytes: 8_192,
        frame_max: 2_048,
        ..StoreConfig::default()
    };
    LogStore::open_inline(Arc::new(SimDisk::new()), &config, Arc::new(Silent)).unwrap()
}

#[test]
fn a_poisoned_store_sleeps_although_a_retry_or_a_flush_was_due() {
    let store = open(Durability::Written);
    let full = Fault::new(Code::StoreFull, "no room");
    store.look_at(|committer| {
        let core: Arc<Core> = committer.core.clone();
        core.room.set_short(Some(full));
        committer.flush_at = Some(0);
        core.set_fault(Fault::new(Code::NotDurable, "a flush failed"));
        committer.take_care();
        assert_eq!(committer.wake_at(), None, "it would wake at once, for ever");
    });
}

#[test]
fn without_a_flush_nobody_is_waited_for() {
    let store = open(Durability::Written);
    let load = store.begin(SessionId::from_bytes([1; 16]), Arc::new(Silent)).unwrap();
    for ticket in 1..=2 {
        store.look_at(|committer| committer.pace.flush_time = Duration::from_secs(1));
        let permit = store.permit(load, 3, Purpose::Settle).unwrap();
        let append = Append {
            ticket,
            payload: Payload::Events(b"[1]".to_vec().into()),
            pending: false,
            urgency: Urgency::Now,
            time: Timestamp(ticket),
        };
        store.append(permit, append);
    }
    store.look_at(|committer| assert_eq!(committer.pace.flush_time, Duration::ZERO));
}

#[test]
fn a_snapshot_larger_than_what_is_ready_waits_until_it_has_room() {
    let store = open(Durability::Sync);
    let load = store.begin(SessionId::from_bytes([1; 16]), Arc::new(Silent)).unwrap();
    // The committer makes room for it in the call.
    let permit = store.permit(load, 200_000, Purpose::Snapshot).unwrap();
    store.look_at(|committer| assert!(committer.tail.ahead() > 200_000));
    drop(permit);
    for _ in 0..3 {
        store.tick(Timestamp(1));
        store.look_at(|committer| assert!(committer.core.room.enough() < 100_000, "still wanted"));
    }
}

#[test]
fn a_session_of_tiny_frames_cannot_take_every_slot() {
    let config = StoreConfig::default();
    let room = Room::new(&config, config.segment_bytes);
    let store = open(Durability::Sync);
    let load = store.begin(SessionId::from_bytes([1; 16]), Arc::new(Silent)).unwrap();
    let cell = store.cell(load);
    let charges: Vec<_> = std::iter::from_fn(|| room.take(&cell, 2, 100)).collect();
    assert_eq!(charges.len(), config.queue_max / 4);
    for charge in charges {
        room.give_back(&cell, charge);
    }
    assert!(room.take(&cell, config.share_bytes_max, 100).is_some(), "not all was given back");
}
