//! The simulated disk, as long as nothing fails, is a disk like the real one.

use std::io;

use callboard::persist::{Disk, DiskFile, RealDisk, SimDisk};

use crate::chance::Chance;

const PATHS: [&str; 6] = ["a", "b", "log/a", "log/b", "history/a", "nowhere/a"];

/// What a call gave: its bytes or number, or the kind of its error.
type Answer = Result<Vec<u8>, io::ErrorKind>;

/// One call with arguments drawn from `chance`; `files` are the openings so far.
fn call(disk: &dyn Disk, files: &mut Vec<Box<dyn DiskFile>>, chance: &mut Chance) -> Answer {
    let path = PATHS[chance.below(PATHS.len())];
    let other = PATHS[chance.below(PATHS.len())];
    let (which, offset, len) = (chance.below(8), chance.below(3_000), chance.below(2_000));
    let fill = u8::try_from(chance.below(256)).unwrap();
    let number = |n: usize| n.to_le_bytes().to_vec();
    let none = |()| Vec::new();
    let mut keep = |file: Box<dyn DiskFile>| {
        files.push(file);
        Vec::new()
    };
    let answer = match chance.below(14) {
        0 => disk.create(path).map(&mut keep),
        1 => disk.open(path, false).map(&mut keep),
        2 => disk.open(path, true).map(&mut keep),
        3 => disk.rename(path, other).map(none),
        4 => disk.remove(path).map(none),
        5 => disk.list(["", "log", "history", "nowhere"][which % 4]).map(|mut names| {
            names.sort();
            names.join(" ").into_bytes()
        }),
        6 => disk.sync_dir(["", "log", "nowhere"][which % 3]).map(none),
        7 => disk.make_dir(["", "log", "history"][which % 3]).map(none),
        kind => {
            let Some(file) = files.iter().rev().nth(which) else { return Ok(Vec::new()) };
            match kind {
                8 | 9 => file.write_at(&vec![fill; len], offset as u64).map(number),
                10 => file.truncate(len as u64).map(none),
                11 => file.sync().map(none),
                12 => file.len().map(|len| number(usize::try_from(len).unwrap())),
                _ => {
                    let mut bytes = vec![0; len];
                    file.read_at(&mut bytes, offset as u64).map(|n| {
                        bytes.truncate(n);
                        bytes
                    })
                }
            }
        }
    };
    // Which error a forbidden write gives is the system's; that it gives one is not.
    answer.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists => error.kind(),
        _ => io::ErrorKind::Other,
    })
}

#[test]
fn the_simulated_disk_answers_like_the_real_one() {
    for seed in 0..12 {
        let dir = tempfile::tempdir().unwrap();
        let (real, sim) = (RealDisk::new(dir.path().join("data")), SimDisk::new());
        for disk in [&real as &dyn Disk, &sim] {
            disk.make_dir("log").unwrap();
            disk.make_dir("history").unwrap();
        }
        let (mut real_files, mut sim_files) = (Vec::new(), Vec::new());
        let (mut first, mut second) = (Chance(seed), Chance(seed));
        for step in 0..600 {
            let want = call(&real, &mut real_files, &mut first);
            let got = call(&sim, &mut sim_files, &mut second);
            assert!(got == want, "seed {seed}, step {step}: another answer than the real disk's");
        }
        assert!(real_files.len() > 20, "seed {seed} opened too little");
    }
}
