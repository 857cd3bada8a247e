//! A disk that refuses, tears or forgets a call: no false receipt, nothing half-written, and the
//! service goes on when it may.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use callboard::config::{Durability, History, StoreConfig};
use callboard::persist::sim_disk::{CallKind, DiskFault};
use callboard::persist::{SimDisk, Store};
use callboard::{Code, Fault};

use callboard::persist::store::{Append, Payload, Permit, Purpose, Tickets, Urgency};
use callboard::protocol::{SessionId, Timestamp};

use crate::archive::{Lived, SEATS, live, open, quick_or_long, recover_and_go_on, small};
use crate::chance::Chance;
use crate::script::{Act, script};
use crate::truth::{Promise, Truth, session, survey};
use crate::writer::{Trouble, Writer};

/// Calls that change the disk, after the opening of a new store.
fn changing_calls(config: &StoreConfig, acts: &[Act]) -> Vec<(CallKind, u64)> {
    let kinds = [
        CallKind::Create,
        CallKind::Rename,
        CallKind::Remove,
        CallKind::SyncDir,
        CallKind::Write,
        CallKind::Sync,
        CallKind::Truncate,
    ];
    let count = |acts: &[Act]| {
        let disk = SimDisk::new();
        let lived = live(&disk, config, Truth::new(SEATS), acts);
        lived.trouble.unwrap();
        kinds.map(|kind| disk.calls_of(kind))
    };
    let (opened, played) = (count(&[]), count(acts));
    let calls = kinds.into_iter().zip(opened.into_iter().zip(played));
    calls.flat_map(|(kind, (from, to))| (from + 1..=to).map(move |n| (kind, n))).collect()
}

/// One event a session: what a service that goes on can do.
fn round() -> Vec<Act> {
    (0..SEATS).map(|seat| Act::Event { seat, bytes: 40, lazy: false }).collect()
}

fn all_settled(truth: &Truth) -> bool {
    truth.journals.iter().all(|journal| journal.events.iter().all(|event| event.settled))
}

/// The fault has passed: the store serves again, or says for good that it does not and still reads.
fn serves_or_says_so(lived: &mut Lived) -> Result<bool, String> {
    let Some(writer) = &mut lived.writer else { return Err("did not open".into()) };
    match (&lived.trouble, writer.store.fault()) {
        (Err(Trouble::Wrong(text)), _) => return Err(text.clone()),
        (_, Some(fault)) => {
            survey(&*writer.store, &writer.truth().clone(), Promise::Settled)
                .map_err(|text| format!("poisoned by {fault}, reading: {text}"))?;
            let before = writer.truth().n_handed;
            let played = writer.play(&round());
            let truth = writer.truth().clone();
            if let Err(Trouble::Wrong(text)) = played {
                return Err(text);
            }
            let events = truth.journals.iter().flat_map(|journal| &journal.events);
            if events.into_iter().any(|event| event.order > before && event.settled) {
                return Err("a poisoned store gave a receipt".into());
            }
            return Ok(false);
        }
        (Err(Trouble::Fault(fault)), None) => return Err(format!("cannot go on: {fault}")),
        (Ok(()), None) => {}
    }
    match writer.play(&round()) {
        Err(trouble) => Err(format!("after the fault: {trouble:?}")),
        Ok(()) if all_settled(&writer.truth()) => Ok(true),
        Ok(()) => Err(format!("after the fault not all is settled: {:?}", writer.truth().faults)),
    }
}

/// A write that stores half its bytes and then fails for good: something of it is there.
#[test]
fn f43_a_write_that_fails_half_way_is_wiped_or_poisons() {
    let (config, acts) = (small(History::Keep), script(78, 40, SEATS));
    let (mut n_served, mut n_poisoned) = (0, 0);
    let writes = changing_calls(&config, &acts);
    for (kind, n) in writes.into_iter().filter(|(kind, _)| *kind == CallKind::Write) {
        for (fault, wiping_fails) in [
            (DiskFault::NoSpace, false),
            (DiskFault::Io, false),
            (DiskFault::Io, true),
            (DiskFault::ReadOnly, false),
        ] {
            let name = format!("half of write {n}, then {fault:?}, wiping fails: {wiping_fails}");
            let disk = SimDisk::new();
            disk.fail_kind(kind, n, DiskFault::ShortWrite);
            disk.fail_kind(kind, n + 1, fault);
            if wiping_fails {
                disk.fail_kind(kind, n + 2, fault);
            }
            let mut lived = live(&disk, &config, Truth::new(SEATS), &acts);
            let served =
                serves_or_says_so(&mut lived).unwrap_or_else(|text| panic!("{name}: {text}"));
            *if served { &mut n_served } else { &mut n_poisoned } += 1;
            let truth = lived.writer.as_ref().unwrap().truth().clone();
            let crashed = SimDisk::from_image(&disk.image()).crash_seeded(n);
            for disk in [crashed, disk.kill()] {
                recover_and_go_on(&disk, &config, (&truth, Promise::Settled), &round())
                    .unwrap_or_else(|text| panic!("{name}: {text}"));
            }
        }
    }
    assert!(n_served > 50 && n_poisoned > 5, "{n_served} served, {n_poisoned} poisoned");
}

/// Lets every changing call fail once; gives how often the store went on and how often it did not.
fn each_call_fails(seed: u64, fault: DiskFault, kinds: &[CallKind]) -> (usize, usize) {
    let config = small(if seed.is_multiple_of(2) { History::Drop } else { History::Keep });
    let acts = script(seed, 40, SEATS);
    each_call_fails_with(&config, (seed, &acts), fault, kinds)
}

fn each_call_fails_with(
    config: &StoreConfig,
    (seed, acts): (u64, &[Act]),
    fault: DiskFault,
    kinds: &[CallKind],
) -> (usize, usize) {
    let without_power = match config.durability {
        Durability::Written => Promise::Prefix,
        Durability::Sync | Durability::Memory => Promise::Settled,
    };
    let (mut n_served, mut n_poisoned) = (0, 0);
    let calls = changing_calls(config, acts);
    for (kind, n) in calls.into_iter().filter(|(kind, _)| kinds.contains(kind)) {
        let name = format!("seed {seed}: {fault:?} at {kind:?} {n}");
        let disk = SimDisk::new();
        disk.fail_kind(kind, n, fault);
        let mut lived = live(&disk, config, Truth::new(SEATS), acts);
        let served = serves_or_says_so(&mut lived).unwrap_or_else(|text| panic!("{name}: {text}"));
        *if served { &mut n_served } else { &mut n_poisoned } += 1;
        let truth = lived.writer.as_ref().unwrap().truth().clone();
        let image = disk.image();
        for crash in 0..quick_or_long(1, 20) {
            let disk = SimDisk::from_image(&image).crash_seeded(crash);
            recover_and_go_on(&disk, config, (&truth, without_power), &round())
                .unwrap_or_else(|text| panic!("{name}, crash {crash}: {text}"));
        }
        recover_and_go_on(&disk.kill(), config, (&truth, Promise::Settled), &round())
            .unwrap_or_else(|text| panic!("{name}, killed: {text}"));
    }
    (n_served, n_poisoned)
}

const CHANGES: [CallKind; 5] =
    [CallKind::Create, CallKind::Rename, CallKind::Remove, CallKind::Write, CallKind::Truncate];

#[test]
fn f44_a_failed_flush_never_becomes_a_receipt() {
    let (_, n_poisoned) = each_call_fails(71, DiskFault::Io, &[CallKind::Sync, CallKind::SyncDir]);
    assert!(n_poisoned > 20, "{n_poisoned} failed flushes poisoned the store");
}

#[test]
fn f44_in_written_mode_a_failed_flush_ends_the_receipts_and_a_prefix_survives() {
    let config = StoreConfig { durability: Durability::Written, ..small(History::Keep) };
    let kinds = [CallKind::Sync, CallKind::SyncDir];
    let acts = script(77, 40, SEATS);
    let (_, n_poisoned) = each_call_fails_with(&config, (77, &acts), DiskFault::Io, &kinds);
    assert!(n_poisoned > 3, "{n_poisoned} failed flushes poisoned the store");
}

/// Events that wait together and are written in several groups.
fn bursts(seed: u64, n_bursts: usize) -> Vec<Act> {
    let mut chance = Chance(seed);
    let mut burst = || {
        let event = |chance: &mut Chance| Act::Event {
            seat: chance.below(SEATS),
            bytes: chance.below(400),
            lazy: true,
        };
        let mut acts: Vec<Act> = (0..6).map(|_| event(&mut chance)).collect();
        acts.push(Act::Urge);
        acts
    };
    (0..n_bursts).flat_map(|_| burst()).collect()
}

#[test]
fn m53_after_a_failed_group_no_later_frame_of_its_loads_is_written() {
    let config = StoreConfig {
        group_bytes_max: 900,
        lazy_commit: Duration::from_secs(9),
        ..small(History::Keep)
    };
    for (seed, fault) in [(79, DiskFault::NoSpace), (80, DiskFault::Io)] {
        let acts = bursts(seed, 8);
        let kinds = [CallKind::Write, CallKind::Create];
        let (n_served, _) = each_call_fails_with(&config, (seed, &acts), fault, &kinds);
        assert!(n_served > 20, "{fault:?}: {n_served} served");
    }
}

fn frame(ticket: u64) -> Append {
    Append {
        ticket,
        payload: Payload::Events(format!("[{ticket}]").into_bytes().into()),
        pending: true,
        urgency: Urgency::Now,
        time: Timestamp(ticket),
    }
}

/// At its first receipt it ends the load and hands over one more append.
#[derive(Default)]
struct EndsAndGoesOn {
    kept: Mutex<Option<(Arc<dyn Store>, Permit)>>,
    outcomes: Mutex<Vec<(u64, bool)>>,
}

impl Tickets for EndsAndGoesOn {
    fn settled(&self, _: u64, ticket: u64, outcome: Result<(), Fault>) {
        self.outcomes.lock().unwrap().push((ticket, outcome.is_ok()));
        let kept = self.kept.lock().unwrap().take();
        if let Some((store, permit)) = kept {
            store.end(permit.load, Box::new(|| ()));
            store.append(permit, frame(2));
        }
    }
    fn room(&self) {}
}

#[test]
fn m53_an_append_behind_the_end_of_its_load_is_refused() {
    let (disk, config) = (SimDisk::new(), small(History::Keep));
    let store = open(&disk, &config).unwrap().store;
    let told = Arc::new(EndsAndGoesOn::default());
    let load = store.begin(session(1), told.clone()).unwrap();
    let late = store.permit(load, 100, Purpose::Send).unwrap();
    let permit = store.permit(load, 100, Purpose::Send).unwrap();
    *told.kept.lock().unwrap() = Some((store.clone(), late));
    store.append(permit, frame(1));
    assert_eq!(*told.outcomes.lock().unwrap(), [(1, true), (2, false)]);
    assert_eq!(store.replay(session(1)).unwrap().frames.len(), 1);
}

#[test]
fn m53_an_append_that_comes_after_its_load_has_ended_leaves_no_trace() {
    let (disk, config) = (SimDisk::new(), small(History::Keep));
    let store = open(&disk, &config).unwrap().store;
    let load = store.begin(session(1), Arc::new(Silent)).unwrap();
    let late = store.permit(load, 100, Purpose::Send).unwrap();
    store.end(load, Box::new(|| ()));
    store.append(late, frame(1));
    assert!(store.replay(session(1)).unwrap().frames.is_empty());
    assert!(store.begin(session(1), Arc::new(Silent)).is_ok());
}

#[test]
fn f44_a_disk_that_lies_about_flushes_is_never_read_as_something_else() {
    let mut n_opened = 0;
    for seed in 141..quick_or_long(181, 600) {
        let (config, acts) = (small(History::Keep), script(seed, 30, SEATS));
        let disk = SimDisk::new();
        let lived = live(&disk, &config, Truth::new(SEATS), &acts[..15]);
        let mut writer = lived.writer.unwrap();
        disk.set_lying_flush(true);
        writer.play(&acts[15..]).unwrap_or_else(|trouble| panic!("seed {seed}: {trouble:?}"));
        let truth = writer.truth().clone();
        let disk = disk.crash_seeded(seed);
        let Ok(opened) = open(&disk, &config) else { continue };
        n_opened += 1;
        for seat in 0..SEATS {
            if let Ok(replay) = opened.store.replay(session(seat)) {
                truth
                    .judge(seat, replay, Promise::Prefix)
                    .unwrap_or_else(|text| panic!("seed {seed}: seat {seat}: {text}"));
            }
        }
    }
    assert!(n_opened > 20, "only {n_opened} openings");
}

#[test]
fn f43_where_sends_are_refused_work_is_still_settled_and_the_cleaner_still_served() {
    let (config, disk) = (small(History::Keep), SimDisk::new());
    let mut writer = live(&disk, &config, Truth::new(SEATS), &round()).writer.unwrap();
    disk.set_capacity(Some(disk.used_bytes()));
    let told = Arc::new(Silent);
    let other = SessionId::from_bytes([9; 16]);
    let load = writer.store.begin(other, told).unwrap();
    let may = |writer: &Writer, purpose| writer.store.permit(load, 100, purpose).is_ok();
    let mut n_settled = 0;
    while may(&writer, Purpose::Send) {
        writer.one(Purpose::Send, 1);
        assert!(writer.truth().n_handed < 1_000, "a full disk never refuses");
    }
    assert!(writer.store.fault().is_none());
    assert!(may(&writer, Purpose::Settle) && may(&writer, Purpose::Clean));
    while may(&writer, Purpose::Settle) {
        writer.one(Purpose::Settle, 1);
        n_settled += 1;
        assert!(n_settled < 100, "what settles work is never refused");
    }
    assert!(n_settled > 0 && all_settled(&writer.truth()));
    assert!(!may(&writer, Purpose::Snapshot), "an ordinary snapshot takes the cleaner's reserve");
    assert!(may(&writer, Purpose::Clean), "nothing is left for the cleaner");
    let truth = writer.truth().clone();
    let round = round();
    drop(writer);
    disk.set_capacity(None);
    recover_and_go_on(&disk.crash(|_| 0), &config, (&truth, Promise::Settled), &round).unwrap();
}

/// Who is told and does not care.
struct Silent;

impl Tickets for Silent {
    fn settled(&self, _: u64, _: u64, _: Result<(), Fault>) {}
    fn room(&self) {}
}

#[test]
fn f43_no_space_at_any_write_leaves_nothing_half_written_and_service_resumes() {
    let (n_served, n_poisoned) = each_call_fails(72, DiskFault::NoSpace, &CHANGES);
    assert!(n_served > 20 && n_poisoned == 0, "{n_served} served, {n_poisoned} poisoned");
}

#[test]
fn f43_an_io_error_at_any_change_never_becomes_a_receipt() {
    let (n_served, n_poisoned) = each_call_fails(73, DiskFault::Io, &CHANGES);
    assert!(n_served + n_poisoned > 40);
}

#[test]
fn f43_a_short_write_is_finished_or_taken_back() {
    let (n_served, n_poisoned) = each_call_fails(74, DiskFault::ShortWrite, &[CallKind::Write]);
    assert!(n_served > 20 && n_poisoned == 0, "{n_served} served, {n_poisoned} poisoned");
}

#[test]
fn f43_a_disk_that_turns_read_only_for_one_call_loses_nothing() {
    let (n_served, n_poisoned) = each_call_fails(75, DiskFault::ReadOnly, &CHANGES);
    assert!(n_served > 20 && n_poisoned == 0, "{n_served} served, {n_poisoned} poisoned");
}

#[test]
fn f43_too_many_open_files_at_any_opening_loses_nothing() {
    let kinds = [CallKind::Create, CallKind::Open];
    let (n_served, _) = each_call_fails(76, DiskFault::TooManyFiles, &kinds);
    assert!(n_served > 5);
}

/// Plays into `fault`, which lasts, lifts it, and demands service again.
fn lasts_and_passes(seed: u64, history: History, fault: impl Fn(&SimDisk, bool)) -> Vec<Code> {
    let (config, acts) = (small(history), script(seed, 120, SEATS));
    let disk = SimDisk::new();
    let mut lived = live(&disk, &config, Truth::new(SEATS), &acts[..60]);
    let writer = lived.writer.as_mut().unwrap();
    fault(&disk, true);
    writer.play(&acts[60..]).unwrap_or_else(|trouble| panic!("seed {seed}: {trouble:?}"));
    let faults = writer.truth().faults.clone();
    fault(&disk, false);
    let served = serves_or_says_so(&mut lived).unwrap_or_else(|text| panic!("seed {seed}: {text}"));
    assert!(served, "seed {seed}: the store did not serve again");
    let truth = lived.writer.as_ref().unwrap().truth().clone();
    let disk = disk.crash_seeded(seed);
    recover_and_go_on(&disk, &config, (&truth, Promise::Settled), &round())
        .unwrap_or_else(|text| panic!("seed {seed}: {text}"));
    faults
}

#[test]
fn f43_a_full_disk_refuses_before_anything_is_touched_and_serves_again_with_room() {
    for seed in 81..quick_or_long(91, 181) {
        let room = (seed - 81) * 1_500;
        let faults = lasts_and_passes(seed, History::Keep, |disk, full| {
            disk.set_capacity(full.then(|| disk.used_bytes() + room));
        });
        assert!(faults.contains(&Code::StoreFull), "seed {seed}: {faults:?}");
    }
}

#[test]
fn f43_a_read_only_disk_refuses_and_serves_again_when_it_is_writable() {
    for seed in 91..quick_or_long(95, 150) {
        let faults = lasts_and_passes(seed, History::Drop, SimDisk::set_read_only);
        assert!(faults.contains(&Code::StoreReadOnly), "seed {seed}: {faults:?}");
    }
}

#[test]
fn f43_an_opening_without_room_or_on_a_read_only_disk_fails_clean_and_works_later() {
    let config = small(History::Keep);
    for call in 1..quick_or_long(40, 80) {
        for fault in [DiskFault::NoSpace, DiskFault::Io, DiskFault::ReadOnly] {
            let name = format!("{fault:?} at call {call}");
            let disk = SimDisk::new();
            disk.fail_call(call, fault);
            let lived = live(&disk, &config, Truth::new(SEATS), &round());
            let truth = lived.truth_unless_wrong().unwrap_or_else(|text| panic!("{name}: {text}"));
            drop(lived);
            recover_and_go_on(&disk.kill(), &config, (&truth, Promise::Settled), &round())
                .unwrap_or_else(|text| panic!("{name}: {text}"));
        }
    }
}
