//! Reading without owning: beside a living process, after a crash, and on a damaged disk.

use std::sync::Arc;

use callboard::config::{History, StoreConfig};
use callboard::persist::SimDisk;
use callboard::persist::log::LogReader;
use callboard::persist::sim_disk::CallKind;
use callboard::persist::store::FrameKind;

use crate::archive::{SEATS, live, open, quick_or_long, recover, small};
use crate::script::{Act, script};
use crate::truth::{Promise, Truth, session};
use crate::workload::Workload;
use crate::writer::Writer;

/// Payloads of one session's events, and how many of them are proved.
type Shown = (Vec<Vec<u8>>, usize);

/// What a reader shows of each session.
fn read(disk: &SimDisk) -> Result<Vec<Shown>, String> {
    let reader = LogReader::open(Arc::new(disk.clone())).map_err(|fault| fault.to_string())?;
    let mut shown = vec![(Vec::new(), 0); SEATS];
    let read = reader.frames(&mut |frame| {
        let seat = (0..SEATS).find(|seat| session(*seat) == frame.session).unwrap();
        if frame.kind == FrameKind::Events {
            shown[seat].0.push(frame.payload);
            shown[seat].1 += usize::from(frame.proved);
        }
    });
    read.map_err(|fault| fault.to_string())?;
    Ok(shown)
}

/// Whether the reader shows every settled event, in order, and nothing that was not handed over.
fn agrees(disk: &SimDisk, truth: &Truth) -> Result<(), String> {
    for (seat, (shown, n_proved)) in read(disk)?.into_iter().enumerate() {
        let events = &truth.journals[seat].events;
        let n_settled = events.iter().filter(|event| event.settled).count();
        let same = shown.iter().zip(events).all(|(shown, event)| *shown == event.payload);
        if !same || shown.len() > events.len() || shown.len() < n_settled {
            return Err(format!("seat {seat}: {} of {n_settled} events", shown.len()));
        }
        if n_proved > n_settled {
            return Err(format!("seat {seat}: {n_proved} proved, {n_settled} settled"));
        }
    }
    Ok(())
}

fn changes(disk: &SimDisk) -> u64 {
    let kinds = [
        CallKind::MakeDir,
        CallKind::Create,
        CallKind::Rename,
        CallKind::Remove,
        CallKind::Write,
        CallKind::Truncate,
        CallKind::Sync,
        CallKind::SyncDir,
        CallKind::Lock,
    ];
    kinds.into_iter().map(|kind| disk.calls_of(kind)).sum()
}

#[test]
fn m63_reading_beside_a_living_process_shows_all_that_is_settled_and_changes_nothing() {
    let (disk, config) = (SimDisk::new(), small(History::Keep));
    let truth = Arc::new(std::sync::Mutex::new(Truth::new(SEATS)));
    let mut writer = Writer::new(open(&disk, &config).unwrap(), &truth).unwrap();
    for (n, act) in script(131, 80, SEATS).into_iter().enumerate() {
        writer.act(act).unwrap();
        let (before, files) = (changes(&disk), disk.files());
        let truth = writer.truth().clone();
        agrees(&disk, &truth).unwrap_or_else(|text| panic!("after act {n} {act:?}: {text}"));
        assert!(changes(&disk) == before && disk.files() == files, "act {n}: reading changed");
    }
}

#[test]
fn m63_reading_after_a_crash_shows_what_recovery_finds_and_no_damage() {
    let workload = Workload::new(small(History::Keep), 132, quick_or_long(24, 60));
    let config = &workload.config;
    for call in 30..=workload.n_calls() {
        let point = workload.crash_at(call);
        let disk = point.disk.crash_seeded(call);
        let shown = read(&disk).unwrap_or_else(|text| panic!("{}: {text}", point.name));
        let report = LogReader::open(Arc::new(disk.clone())).unwrap().verify().unwrap();
        assert!(report.damage.is_empty(), "{}: a crash is no rot: {report:?}", point.name);
        let (recovered, _) = recover(&disk, config, &point.truth, Promise::Settled)
            .unwrap_or_else(|text| panic!("{}: {text}", point.name));
        for (seat, found) in recovered.found.iter().enumerate() {
            let events = &point.truth.journals[seat].events[..found.n_events];
            let same = events.iter().map(|event| &event.payload).eq(&shown[seat].0);
            assert!(same, "{}: seat {seat} is read and recovered differently", point.name);
        }
    }
}

#[test]
fn m63_reading_a_damaged_log_shows_no_changed_frame_and_verification_names_the_damage() {
    let (disk, config): (SimDisk, StoreConfig) = (SimDisk::new(), small(History::Keep));
    let lived = live(&disk, &config, Truth::new(SEATS), &script(133, 16, SEATS));
    let truth = lived.truth_unless_wrong().unwrap();
    lived.writer.as_ref().unwrap().store.close().unwrap();
    let disk = disk.kill();
    let (image, whole) = (disk.image(), read(&disk).unwrap());
    let mut n_damaged = 0;
    for (path, bytes) in disk.files().iter().filter(|(path, _)| path.contains('/')) {
        for offset in (0..bytes.len()).step_by(quick_or_long(5, 1)) {
            let disk = SimDisk::from_image(&image);
            let bit = u8::try_from(offset % 8).unwrap();
            disk.flip_bit(path, offset, bit);
            let name = format!("bit {bit} of byte {offset} of {path}");
            let shown = read(&disk).unwrap_or_else(|text| panic!("{name}: {text}"));
            for (seat, (shown, _)) in shown.iter().enumerate() {
                let mut events = truth.journals[seat].events.iter();
                let known = shown.iter().all(|shown| events.any(|event| event.payload == *shown));
                assert!(known, "{name}: seat {seat} shows a changed frame");
            }
            let report = LogReader::open(Arc::new(disk)).unwrap().verify().unwrap();
            let seen = !report.damage.is_empty() || report.unproved_bytes > 0;
            n_damaged += usize::from(!report.damage.is_empty());
            assert!(seen || shown == whole, "{name}: frames are missing without a word");
        }
    }
    assert!(n_damaged > 100, "only {n_damaged} flips were damage");
}

#[test]
fn m63_a_directory_without_a_journal_is_said_to_be_none() {
    let disk = SimDisk::new();
    assert!(LogReader::open(Arc::new(disk.clone())).is_err());
    assert!(disk.files().is_empty());
    let acts = [Act::Event { seat: 1, bytes: 10, lazy: false }];
    let lived = live(&disk, &small(History::Keep), Truth::new(SEATS), &acts);
    drop(lived);
    assert!(LogReader::open(Arc::new(disk.kill())).is_ok());
}
