//! Every truncation and every single flipped bit of a small log: nothing that is read has changed.

use std::collections::{BTreeMap, BTreeSet};

use callboard::Code;
use callboard::config::{History, StoreConfig};
use callboard::persist::sim_disk::DiskImage;
use callboard::persist::{Disk, SimDisk};

use crate::archive::{SEATS, live, open, quick_or_long, small};
use crate::chance::Chance;
use crate::script::script;
use crate::truth::{Promise, Truth, session};

/// How the process that wrote the log ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Orderly,
    Killed,
    /// Killed, and the saved heads are gone: every segment is read at opening.
    Headless,
}

/// A log without damage, and what it holds.
struct Sound {
    image: DiskImage,
    files: BTreeMap<String, Vec<u8>>,
    truth: Truth,
    config: StoreConfig,
    end: End,
    /// The bytes of frames that a replay needs, each a file and a range, with their owner.
    needed: Vec<(String, std::ops::Range<usize>, usize)>,
}

/// Bytes of a frame before its payload, by `docs/journal.md`.
const FRAME_HEADER: usize = 68;

fn sound(seed: u64, n_acts: usize, end: End) -> Sound {
    let config = small(History::Keep);
    let disk = SimDisk::new();
    let lived = live(&disk, &config, Truth::new(SEATS), &script(seed, n_acts, SEATS));
    let truth = lived.truth_unless_wrong().unwrap();
    if end == End::Orderly {
        lived.writer.as_ref().unwrap().store.close().unwrap();
    }
    let disk = disk.kill();
    if end == End::Headless {
        disk.remove("heads").unwrap();
        disk.sync_dir("").unwrap();
    }
    let (image, files) = (disk.image(), disk.files());
    let opened = open(&disk, &config).unwrap();
    let segment = usize::try_from(config.segment_bytes).unwrap();
    let mut needed = Vec::new();
    for seat in 0..SEATS {
        for frame in opened.store.replay(session(seat)).unwrap().frames {
            let position = usize::try_from(frame.position).unwrap();
            let (file, start) = (position / segment, position % segment);
            let range = start..start + FRAME_HEADER + frame.payload.len();
            needed.push((format!("log/{file:016x}"), range, seat));
        }
    }
    Sound { image, files, truth, config, end, needed }
}

/// What damage led to.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Nothing,
    Cut,
    Quarantined,
    ReadOnly,
    Refused,
}

impl Sound {
    /// Opens the damaged disk and holds it to the rules; `path` is the file that was damaged.
    fn judge(&self, disk: &SimDisk, path: &str) -> Result<(Outcome, BTreeSet<usize>), String> {
        let before = disk.files();
        let opened = match open(disk, &self.config) {
            Ok(opened) => opened,
            Err(fault) => {
                let known = [Code::JournalCorrupt, Code::JournalVersion, Code::StoreUnusable];
                if !known.contains(&fault.code) || path != "store.meta" {
                    return Err(format!("refused: {fault}"));
                }
                self.nothing_deleted(&before, &disk.files())?;
                return Ok((Outcome::Refused, BTreeSet::new()));
            }
        };
        let report = opened.store.recovery();
        let (mut damaged, mut n_lost) = (BTreeSet::new(), 0);
        for seat in 0..SEATS {
            let replay = match opened.store.replay(session(seat)) {
                Ok(replay) => replay,
                Err(fault) if fault.code == Code::JournalCorrupt => {
                    damaged.insert(seat);
                    continue;
                }
                Err(fault) => return Err(format!("seat {seat}: {fault}")),
            };
            let found = self.truth.judge(seat, replay, Promise::Prefix);
            let found = found.map_err(|text| format!("seat {seat}: {text}"))?;
            n_lost += self.truth.journals[seat].events.len() - found.n_events;
        }
        self.nothing_deleted(&before, &disk.files())?;
        let cut = report.cut_bytes > 0;
        if n_lost > 0 && !(cut && self.end != End::Orderly) && report.read_only.is_none() {
            return Err(format!("{n_lost} events are gone: {report:?}"));
        }
        if cut && !disk.files().keys().any(|path| !before.contains_key(path)) {
            return Err("what was cut was not copied aside".into());
        }
        if report.read_only.is_some() || damaged.contains(&0) {
            let fault = opened.store.fault().ok_or("damaged for all and not read-only")?;
            let clear = fault.code == Code::JournalCorrupt;
            return if clear { Ok((Outcome::ReadOnly, damaged)) } else { Err(fault.to_string()) };
        }
        let told: BTreeSet<usize> =
            (0..SEATS).filter(|seat| report.quarantined.contains(&session(*seat))).collect();
        if !told.is_subset(&damaged) {
            return Err(format!("{told:?} are quarantined and {damaged:?} cannot be read"));
        }
        let outcome = if !damaged.is_empty() {
            Outcome::Quarantined
        } else if cut {
            Outcome::Cut
        } else {
            Outcome::Nothing
        };
        Ok((outcome, damaged))
    }

    /// Files stay, under their name or aside; segments keep their bytes, but for a tail that is
    /// cut.
    fn nothing_deleted(
        &self,
        before: &BTreeMap<String, Vec<u8>>,
        after: &BTreeMap<String, Vec<u8>>,
    ) -> Result<(), String> {
        let gone = |path: &&String| !path.ends_with(".tmp") && !after.contains_key(*path);
        match before.keys().find(gone) {
            Some(path) => Err(format!("{path} was deleted")),
            None => Ok(()),
        }
    }

    fn owner(&self, path: &str, offset: usize) -> Option<usize> {
        let covers = |(file, range, _): &&(String, std::ops::Range<usize>, usize)| {
            file == path && range.contains(&offset)
        };
        self.needed.iter().find(covers).map(|(_, _, seat)| *seat)
    }

    /// A flip inside a frame that a replay needs never passes unseen, and hits its owner only.
    fn judge_flip(&self, path: &str, offset: usize, bit: u8) -> Result<Outcome, String> {
        let disk = SimDisk::from_image(&self.image);
        disk.flip_bit(path, offset, bit);
        let (outcome, damaged) = self.judge(&disk, path)?;
        if outcome == Outcome::Quarantined && damaged.len() != 1 {
            return Err(format!("one flip put {damaged:?} into quarantine"));
        }
        match self.owner(path, offset) {
            Some(_) if outcome == Outcome::Nothing => Err("passed unseen".into()),
            Some(seat) if outcome == Outcome::Quarantined && !damaged.contains(&seat) => {
                Err(format!("hit seat {seat} and quarantined {damaged:?}"))
            }
            Some(0) if outcome == Outcome::Quarantined => Err("the supervisor's chain".into()),
            Some(_) | None => Ok(outcome),
        }
    }
}

fn every_flip(seed: u64, end: End) -> BTreeMap<Outcome, usize> {
    let sound = sound(seed, 16, end);
    let mut outcomes = BTreeMap::new();
    for (path, bytes) in &sound.files {
        // Long runs of zeros are all alike: every 97th byte of them, every byte of the rest.
        let telling = |offset: &usize| {
            let near = &bytes[offset.saturating_sub(8)..bytes.len().min(offset + 9)];
            near.iter().any(|byte| *byte != 0) || offset.is_multiple_of(97)
        };
        for offset in (0..bytes.len()).filter(telling) {
            let bits = quick_or_long(offset as u8 % 8..offset as u8 % 8 + 1, 0..8);
            for bit in bits {
                let outcome = sound.judge_flip(path, offset, bit).unwrap_or_else(|text| {
                    panic!("seed {seed} {end:?}: bit {bit} of byte {offset} of {path}: {text}")
                });
                *outcomes.entry(outcome).or_default() += 1;
            }
        }
    }
    outcomes
}

#[test]
fn f35_f36_f59_no_flipped_bit_changes_what_is_read_after_an_orderly_stop() {
    let outcomes = every_flip(61, End::Orderly);
    for outcome in [Outcome::Nothing, Outcome::Quarantined, Outcome::ReadOnly, Outcome::Refused] {
        assert!(outcomes.contains_key(&outcome), "no {outcome:?} in {outcomes:?}");
    }
}

#[test]
fn f35_f36_f59_no_flipped_bit_changes_what_is_read_after_a_kill() {
    let outcomes = every_flip(62, End::Killed);
    for outcome in [Outcome::Nothing, Outcome::Cut, Outcome::Quarantined, Outcome::ReadOnly] {
        assert!(outcomes.contains_key(&outcome), "no {outcome:?} in {outcomes:?}");
    }
}

#[test]
fn f35_f36_f59_no_flipped_bit_changes_what_is_read_where_the_heads_are_gone() {
    let outcomes = every_flip(65, End::Headless);
    for outcome in [Outcome::Nothing, Outcome::Cut, Outcome::Quarantined, Outcome::ReadOnly] {
        assert!(outcomes.contains_key(&outcome), "no {outcome:?} in {outcomes:?}");
    }
}

/// Damage of every kind at once: flips, zeros, blocks written to the wrong place, short files.
fn damage(disk: &SimDisk, chance: &mut Chance) {
    let files = disk.files();
    let pick = |chance: &mut Chance| {
        let (path, bytes) = files.iter().nth(chance.below(files.len())).unwrap();
        (path.clone(), bytes.clone())
    };
    for _ in 0..=chance.below(5) {
        let ((path, mut bytes), (_, other)) = (pick(chance), pick(chance));
        let block = |chance: &mut Chance, len: usize| {
            let size = [512, 4_096][chance.below(2)];
            let start = chance.below(len / size + 1) * size;
            start.min(len)..(start + size).min(len)
        };
        match chance.below(6) {
            0 => disk.set_len(&path, chance.below(bytes.len() + 1)),
            1 => {
                let range = block(chance, bytes.len());
                bytes[range].fill(0);
                disk.put(&path, &bytes);
            }
            2 => {
                let (from, to) = (block(chance, other.len()), block(chance, bytes.len()));
                let len = from.len().min(to.len());
                bytes[to.start..to.start + len]
                    .copy_from_slice(&other[from.start..from.start + len]);
                disk.put(&path, &bytes);
            }
            3 => disk.put(&path, &other),
            _ => {
                for _ in 0..=chance.below(8) {
                    disk.flip_bit(&path, chance.below(bytes.len() + 1), chance.below(8) as u8);
                }
            }
        }
    }
}

#[test]
fn f35_f38_any_mixture_of_damage_is_never_read_as_something_else() {
    for (seed, end) in [(66, End::Orderly), (67, End::Killed), (68, End::Headless)] {
        let sound = sound(seed, 30, end);
        let mut n_opened = 0;
        for case in 0..quick_or_long(400, 20_000) {
            let disk = SimDisk::from_image(&sound.image);
            damage(&disk, &mut Chance(seed * 1_000_000 + case));
            let before = disk.files();
            let opened = open(&disk, &sound.config);
            sound
                .nothing_deleted(&before, &disk.files())
                .unwrap_or_else(|text| panic!("seed {seed} {end:?} case {case}: {text}"));
            let Ok(opened) = opened else { continue };
            n_opened += 1;
            for seat in 0..SEATS {
                if let Ok(replay) = opened.store.replay(session(seat)) {
                    sound.truth.judge(seat, replay, Promise::Prefix).unwrap_or_else(|text| {
                        panic!("seed {seed} {end:?} case {case}: seat {seat}: {text}")
                    });
                }
            }
        }
        assert!(n_opened > 100, "seed {seed}: only {n_opened} openings");
    }
}

#[test]
fn f35_f41_no_truncation_of_any_file_changes_what_is_read() {
    for (seed, end) in [(63, End::Orderly), (64, End::Killed), (69, End::Headless)] {
        let sound = sound(seed, 16, end);
        for (path, bytes) in &sound.files {
            let step = quick_or_long(if bytes.len() > 2_000 { 23 } else { 1 }, 1);
            for len in (0..bytes.len()).step_by(step) {
                let disk = SimDisk::from_image(&sound.image);
                disk.set_len(path, len);
                sound.judge(&disk, path).unwrap_or_else(|text| {
                    panic!("seed {seed} {end:?}: {path} cut to {len} bytes: {text}")
                });
            }
        }
    }
}
