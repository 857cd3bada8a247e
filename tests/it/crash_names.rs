//! Saved heads, names, torn tails and zero blocks: the small print of the files.

use callboard::config::{History, StoreConfig};
use callboard::persist::SimDisk;

use crate::archive::{SEATS, live, recover, recover_and_go_on, small};
use crate::script::{Act, script};
use crate::truth::{Promise, Truth};

fn written(seed: u64, n_acts: usize) -> (SimDisk, StoreConfig, Truth) {
    let (disk, config) = (SimDisk::new(), small(History::Keep));
    let lived = live(&disk, &config, Truth::new(SEATS), &script(seed, n_acts, SEATS));
    let truth = lived.truth_unless_wrong().unwrap();
    (disk.kill(), config, truth)
}

fn heads_of(disk: &SimDisk) -> Vec<u8> {
    disk.files().remove("heads").expect("heads were saved")
}

#[test]
fn f40_f41_heads_missing_empty_torn_or_of_another_time_change_nothing() {
    let (disk, config, truth) = written(111, 60);
    let image = disk.image();
    let heads = heads_of(&disk);
    let older = heads_of(&written(111, 40).0);
    let mut contents = vec![Vec::new(), vec![0; heads.len()], b"{}".to_vec(), older];
    contents.extend((1..heads.len()).step_by(13).map(|len| heads[..len].to_vec()));
    for content in contents {
        for path in ["heads", "heads.tmp"] {
            let disk = SimDisk::from_image(&image);
            disk.put(path, &content);
            let name = format!("{path} with {} bytes", content.len());
            let after = script(112, 20, SEATS);
            recover_and_go_on(&disk, &config, (&truth, Promise::Settled), &after)
                .unwrap_or_else(|text| panic!("{name}: {text}"));
        }
    }
}

#[test]
fn f40_heads_of_a_log_that_went_on_after_they_were_saved_are_only_a_start() {
    let (disk, config, truth) = written(113, 60);
    let heads = heads_of(&disk);
    let acts = script(114, 60, SEATS);
    let lived = live(&disk, &config, truth, &acts);
    let truth = lived.truth_unless_wrong().unwrap();
    let disk = disk.kill();
    disk.put("heads", &heads);
    recover(&disk, &config, &truth, Promise::Settled).unwrap();
}

#[test]
fn f37_what_is_appended_after_a_torn_tail_survives_the_next_recovery() {
    let (disk, config, truth) = written(115, 30);
    let image = disk.image();
    let last = last_written(&disk);
    for torn in [1, 60, 300, 513, 2_000] {
        let disk = SimDisk::from_image(&image);
        let files = disk.files();
        let (path, start) = (&last.0, last.1);
        let mut bytes = files[path].clone();
        let end = bytes.len().min(start + 4_096);
        // The next group's first bytes, as a torn write of some other group leaves them.
        bytes[start..end].fill(0);
        let garbage: Vec<u8> = files[path][..torn].to_vec();
        bytes[start..start + torn].copy_from_slice(&garbage);
        disk.put(path, &bytes);
        let after = script(116, 30, SEATS);
        recover_and_go_on(&disk, &config, (&truth, Promise::Prefix), &after)
            .unwrap_or_else(|text| panic!("{torn} bytes of garbage: {text}"));
    }
}

/// The file and the offset of the last block that is not zeros.
fn last_written(disk: &SimDisk) -> (String, usize) {
    let files = disk.files();
    let segments = files.iter().rev().filter(|(path, _)| path.starts_with("log/"));
    let block = |bytes: &Vec<u8>| {
        let blocks = bytes.chunks(4_096).enumerate();
        blocks.filter(|(_, block)| block.iter().any(|byte| *byte != 0)).map(|(n, _)| n).next_back()
    };
    let found = segments.filter_map(|(path, bytes)| Some((path.clone(), block(bytes)? * 4_096)));
    found.into_iter().next().expect("something was written")
}

#[test]
fn f38_zero_blocks_at_the_tail_are_no_frames() {
    let (disk, config, truth) = written(117, 30);
    let image = disk.image();
    let (path, start) = last_written(&disk);
    for sectors in 0..256_u32 {
        let disk = SimDisk::from_image(&image);
        let mut bytes = disk.files()[&path].clone();
        for sector in (0..8).filter(|sector| sectors >> sector & 1 == 1) {
            bytes[start + sector * 512..start + (sector + 1) * 512].fill(0);
        }
        disk.put(&path, &bytes);
        let after = [Act::Event { seat: 1, bytes: 900, lazy: false }];
        recover_and_go_on(&disk, &config, (&truth, Promise::Prefix), &after)
            .unwrap_or_else(|text| panic!("sectors {sectors:b} of the last block: {text}"));
    }
}
