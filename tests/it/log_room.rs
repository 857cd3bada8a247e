//! Room in the log: what the reserves are kept for, and that whoever waits for room is told.

use std::sync::Arc;

use callboard::config::{History, StoreConfig};
use callboard::error::Code;
use callboard::persist::SimDisk;
use callboard::persist::log::LogStore;
use callboard::persist::sim_disk::{CallKind, DiskFault};
use callboard::persist::store::{
    Append, Load, NoPermit, Payload, Permit, Purpose, Store, Tickets, Urgency,
};
use callboard::protocol::Timestamp;

use crate::chance::Chance;
use crate::log_world::{Session, Told, id, inline, small, threaded};

const PURPOSES: [Purpose; 4] = [Purpose::Send, Purpose::Settle, Purpose::Snapshot, Purpose::Clean];

/// Takes permits until there is none; why not.
fn take_all(
    store: &LogStore,
    load: Load,
    purpose: Purpose,
    sizes: &[usize],
) -> (Vec<Permit>, NoPermit) {
    let mut permits = Vec::new();
    loop {
        match store.permit(load, sizes[permits.len() % sizes.len()], purpose) {
            Ok(permit) => permits.push(permit),
            Err(why) => return (permits, why),
        }
        assert!(permits.len() < 10_000, "there is no end of {purpose:?}");
    }
}

#[test]
fn f43_sends_leave_the_reserves_also_while_the_disk_has_room() {
    let store = inline(&SimDisk::new(), &small());
    let load = store.begin(id(1), Arc::new(Told::default())).unwrap();
    let mut kept = Vec::new();
    for purpose in [Purpose::Send, Purpose::Settle, Purpose::Clean] {
        let (permits, why) = take_all(&store, load, purpose, &[100]);
        assert!(!permits.is_empty(), "nothing was left for {purpose:?}");
        assert!(matches!(why, NoPermit::Wait), "there is room on the disk");
        kept.push(permits);
    }
    for permits in kept {
        drop(permits);
        let again = store.permit(load, 100, Purpose::Clean);
        assert!(again.is_ok(), "what was given back is not to be had");
    }
}

#[test]
fn f43_an_ordinary_snapshot_does_not_take_what_is_kept_for_the_cleaner() {
    let store = inline(&SimDisk::new(), &small());
    let load = store.begin(id(1), Arc::new(Told::default())).unwrap();
    let (_settling, _) = take_all(&store, load, Purpose::Settle, &[1]);
    assert!(matches!(store.permit(load, 1, Purpose::Snapshot), Err(NoPermit::Wait)));
    assert!(store.permit(load, 1, Purpose::Clean).is_ok());
}

fn hand_over(store: &LogStore, session: &mut Session, permit: Permit, snapshot: bool) {
    session.ticket += 1;
    let bytes = vec![b'1'; permit.bytes];
    let payload = if snapshot {
        Payload::snapshot(bytes, permit.bytes.div_ceil(2))
    } else {
        Payload::Events(bytes.into())
    };
    let append = Append {
        ticket: session.ticket,
        payload,
        pending: false,
        urgency: if session.ticket.is_multiple_of(3) { Urgency::Lazy } else { Urgency::Now },
        time: Timestamp(1),
    };
    store.append(permit, append);
}

#[test]
fn f43_what_was_permitted_on_a_full_disk_fits_however_it_is_handed_over() {
    for seed in 0..60 {
        let mut chance = Chance(seed);
        let config = StoreConfig {
            segment_bytes: [8_192, 16_384, 65_536][chance.below(3)],
            frame_max: [2_048, 4_096][chance.below(2)],
            group_bytes_max: [4_096, 8 << 20][chance.below(2)],
            history: History::Drop,
            ..small()
        };
        let disk = SimDisk::new();
        let store = inline(&disk, &config);
        let mut sessions: Vec<_> = (0..4).map(|n| Session::begin(&store, id(n))).collect();
        for n in 0..chance.below(20) {
            sessions[n % 4].put(&store, &vec![b'0'; chance.below(2_000)]);
        }
        disk.set_capacity(Some(disk.used_bytes()));
        let sizes: Vec<_> = (0..7)
            .map(|_| [1, 300, 2_048, chance.below(config.frame_max)][chance.below(4)])
            .collect();
        let mut permits = Vec::new();
        for (n, purpose) in PURPOSES.into_iter().enumerate() {
            let (some, why) = take_all(&store, sessions[n].load, purpose, &sizes);
            assert!(
                matches!(&why, NoPermit::Fault(fault) if fault.code == Code::StoreFull)
                    || matches!(why, NoPermit::Wait),
                "seed {seed}"
            );
            permits.extend(some.into_iter().map(|permit| (n, permit)));
        }
        while !permits.is_empty() {
            let (n, permit) = permits.remove(chance.below(permits.len().min(5)));
            hand_over(&store, &mut sessions[n], permit, n >= 2);
            if chance.below(4) == 0 {
                store.urge();
            }
        }
        store.urge();
        for (n, session) in sessions.iter().enumerate() {
            let told = session.told.now();
            assert_eq!(told.failed, None, "seed {seed}, {:?}", PURPOSES[n]);
            let settled = told.settled.get(&session.load.number).copied().unwrap_or(0);
            assert_eq!(settled, session.ticket, "seed {seed}, {:?}", PURPOSES[n]);
        }
        assert_eq!(store.fault(), None, "seed {seed}");
    }
}

#[test]
fn f43_a_disk_that_fails_while_space_is_made_ready_is_not_called_full() {
    for (fault, code) in [
        (DiskFault::Io, Code::StoreUnusable),
        (DiskFault::NoSpace, Code::StoreFull),
        (DiskFault::ReadOnly, Code::StoreReadOnly),
    ] {
        let disk = SimDisk::new();
        let store = inline(&disk, &small());
        let mut session = Session::begin(&store, id(1));
        let n_calls = disk.calls_of(CallKind::Create);
        for n in 1..1_000 {
            disk.fail_kind(CallKind::Create, n_calls + n, fault);
        }
        let refused = loop {
            match session.try_append(&store, b"[1]", (Purpose::Send, Urgency::Now)) {
                Ok(_) => {}
                Err(NoPermit::Fault(fault)) => break fault,
                Err(NoPermit::Wait) => panic!("nothing is under way"),
            }
        };
        assert_eq!(refused.code, code, "{refused}");
        assert_eq!(session.told.now().failed, None);
    }
}

/// One frame after the other, each as soon as the store lets it.
fn send(store: &LogStore, session: &mut Session, bytes: usize, n_frames: u64) {
    let payload = vec![b'1'; bytes];
    for _ in 0..n_frames {
        loop {
            let rooms = session.told.now().rooms;
            match session.try_append(store, &payload, (Purpose::Send, Urgency::Now)) {
                Ok(_) => break,
                Err(NoPermit::Wait) => session.told.wait(|state| state.rooms > rooms),
                Err(NoPermit::Fault(fault)) => panic!("{fault}"),
            };
        }
    }
    let (load, ticket) = (session.load.number, session.ticket);
    session.told.wait(|state| state.settled.get(&load) == Some(&ticket));
}

#[test]
fn a_send_that_waits_for_log_is_told_when_there_is_some_though_nobody_else_writes() {
    for bytes in [1, 1_000, 2_048] {
        let store = threaded(&SimDisk::new(), &small());
        let mut lone = Session::begin(&store, id(1));
        for _ in 0..40 {
            send(&store, &mut lone, bytes, 1);
        }
        send(&store, &mut lone, bytes, 200);
        std::thread::scope(|scope| {
            for n in 2..6 {
                let store = &store;
                scope.spawn(move || {
                    send(store, &mut Session::begin(store, id(n)), bytes, 100);
                });
            }
        });
        store.close().unwrap();
    }
}

#[test]
fn a_snapshot_larger_than_what_is_kept_ready_is_told_when_there_is_room() {
    let store = threaded(&SimDisk::new(), &small());
    let mut large = Session::begin(&store, id(1));
    let parts = vec![vec![b'1'; 2_000]; 100];
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    loop {
        let rooms = large.told.now().rooms;
        match large.snapshot(&store, &parts) {
            Ok(_) => break,
            Err(NoPermit::Wait) => large.told.wait(|state| state.rooms > rooms),
            Err(NoPermit::Fault(fault)) => panic!("{fault}"),
        };
    }
    let load = large.load.number;
    large.told.wait(|state| state.settled.get(&load) == Some(&1));
    store.close().unwrap();
}

/// Tells nothing and remembers nothing.
struct Silent;

impl Tickets for Silent {
    fn settled(&self, _: u64, _: u64, _: Result<(), callboard::Fault>) {}
    fn room(&self) {}
}

#[test]
fn a_permit_that_is_given_back_unused_leaves_no_claim() {
    let store = inline(&SimDisk::new(), &small());
    let load = store.begin(id(1), Arc::new(Silent)).unwrap();
    let count = |sizes: &[usize]| take_all(&store, load, Purpose::Send, sizes).0.len();
    let first = count(&[700]);
    for _ in 0..50 {
        count(&[1, 2_000]);
    }
    assert_eq!(count(&[700]), first);
}
