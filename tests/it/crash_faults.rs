//! A disk that refuses, tears or forgets a call: no false receipt, nothing half-written, and the
//! service goes on when it may.

use callboard::Code;
use callboard::config::{History, StoreConfig};
use callboard::persist::SimDisk;
use callboard::persist::sim_disk::{CallKind, DiskFault};

use crate::archive::{Lived, SEATS, live, quick_or_long, recover_and_go_on, small};
use crate::script::{Act, script};
use crate::truth::{Promise, Truth, survey};
use crate::writer::Trouble;

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

/// Lets every changing call fail once; gives how often the store went on and how often it did not.
fn each_call_fails(seed: u64, fault: DiskFault, kinds: &[CallKind]) -> (usize, usize) {
    let config = small(if seed.is_multiple_of(2) { History::Drop } else { History::Keep });
    let acts = script(seed, 40, SEATS);
    let (mut n_served, mut n_poisoned) = (0, 0);
    let calls = changing_calls(&config, &acts);
    for (kind, n) in calls.into_iter().filter(|(kind, _)| kinds.contains(kind)) {
        let name = format!("seed {seed}: {fault:?} at {kind:?} {n}");
        let disk = SimDisk::new();
        disk.fail_kind(kind, n, fault);
        let mut lived = live(&disk, &config, Truth::new(SEATS), &acts);
        let served = serves_or_says_so(&mut lived).unwrap_or_else(|text| panic!("{name}: {text}"));
        *if served { &mut n_served } else { &mut n_poisoned } += 1;
        let truth = lived.writer.as_ref().unwrap().truth().clone();
        let image = disk.image();
        for crash in 0..quick_or_long(1, 20) {
            let disk = SimDisk::from_image(&image).crash_seeded(crash);
            recover_and_go_on(&disk, &config, (&truth, Promise::Settled), &round())
                .unwrap_or_else(|text| panic!("{name}, crash {crash}: {text}"));
        }
        recover_and_go_on(&disk.kill(), &config, (&truth, Promise::Settled), &round())
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
