//! A replay that is broken in many rounds into one data directory, and what must hold after them.
//!
//! **Invariant**: a receipt that the journal does not keep shows as a second receipt of its line,
//! since the next run sends every line that the journal lacks.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use callboard::sim::meter::line_body;
use callboard::sim::trace::{Line, pairs};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::Value;
use tempfile::TempDir;

use crate::cli::kills::receipts_in;
use crate::cli::program::{
    Finished, TraceFile, assert_accepted_once, assert_sound, dump, finished, person, trace,
};

/// Flags of a log that is cleaned all the time and keeps no history.
pub(super) const CLEANED: [&str; 8] = [
    "--segment-bytes",
    "65536",
    "--heads-every",
    "131072",
    "--snapshot-every",
    "8",
    "--history",
    "drop",
];

/// The same with a history that a dump shows whole.
pub(super) const KEPT: [&str; 6] =
    ["--segment-bytes", "65536", "--heads-every", "131072", "--snapshot-every", "8"];

/// A replay of the first lines of a trace.
pub(super) struct Replay {
    file: TraceFile,
    pub(super) n_lines: usize,
    pub(super) data: PathBuf,
    pub(super) receipts: PathBuf,
    flags: Vec<String>,
    _home: TempDir,
}

impl Replay {
    /// Of so many lines, at most, with these flags.
    pub(super) fn new(n_lines: usize, flags: &[&str]) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let file = trace();
        Replay {
            n_lines: n_lines.min(file.trace.lines().len()),
            file,
            data: home.path().join("data"),
            receipts: home.path().join("receipts"),
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            _home: home,
        }
    }

    /// The same with its data directory elsewhere.
    pub(super) fn with_data(self, data: PathBuf) -> Self {
        Replay { data, ..self }
    }

    /// The arguments of the binary.
    pub(super) fn args(&self) -> Vec<String> {
        let limit = self.n_lines.to_string();
        let path = |path: &Path| path.to_str().expect("a path is text").to_owned();
        let mut args = ["replay", "--json", "--limit", &limit].map(str::to_owned).to_vec();
        args.extend([path(&self.file.path), "--data".to_owned(), path(&self.data)]);
        args.extend(["--receipts".to_owned(), path(&self.receipts)]);
        args.extend(self.flags.iter().cloned());
        args
    }

    fn lines(&self) -> &[Line] {
        self.file.trace.first(Some(self.n_lines as u64))
    }

    /// What was broken: nothing is damaged, and where there is no journal, nothing was promised.
    pub(super) fn assert_sound(&self, context: &str) {
        let data = self.data.to_str().expect("a path is text");
        let verify = finished(["journal", "verify", data]);
        let nothing = verify.code == Some(3) && self.n_receipts() == 0;
        assert!(nothing || verify.code == Some(0), "{context}: {verify:?}");
    }

    /// Receipts so far.
    pub(super) fn n_receipts(&self) -> usize {
        std::fs::read_to_string(&self.receipts).map_or(0, |text| text.lines().count())
    }

    /// Runs it once more without a fault: every line is accepted once, and no receipt was false.
    pub(super) fn assert_ends_whole(&self, context: &str) -> Value {
        self.assert_whole(finished(self.args()), context)
    }

    /// The same for a run that is over.
    pub(super) fn assert_whole(&self, finished: Finished, context: &str) -> Value {
        let summary = finished.summary(context);
        for count in ["queued", "accepted", "handled"] {
            assert_eq!(summary[count], self.n_lines, "{context}: {count}: {summary}");
        }
        for count in ["dead", "refused"] {
            assert_eq!(summary[count], 0, "{context}: {count}: {summary}");
        }
        assert_sound(&self.data, context);
        if self.flags.iter().any(|flag| flag == "drop") {
            self.assert_nothing_doubled(context);
        } else {
            assert_accepted_once(&self.data, self.lines(), context);
        }
        self.assert_receipts(context);
        summary
    }

    /// The acceptances that a cleaned log still shows are right, and none is there twice.
    fn assert_nothing_doubled(&self, context: &str) {
        let behind: HashMap<(u64, u64), Vec<Line>> = pairs(self.lines()).into_iter().collect();
        let mut seen = HashSet::new();
        for shown in dump(&self.data, context) {
            if shown["event"]["type"] != "accepted" {
                continue;
            }
            let pair = [&shown["event"]["from"], &shown["label"]].map(person);
            let n = shown["event"]["n"].as_u64().expect("a number");
            let line = behind.get(&pair.into()).and_then(|lines| lines.get(n as usize - 1));
            let line = line.unwrap_or_else(|| panic!("{context}: nobody sent {shown}"));
            let body = &shown["event"]["message"]["body"]["text"];
            assert_eq!(body, &line_body(line.number), "{context}: {shown}");
            assert!(seen.insert((pair, n)), "{context}: accepted twice: {shown}");
        }
    }

    /// Each receipt is that of its line, and no line has two.
    fn assert_receipts(&self, context: &str) {
        let behind: HashMap<(u64, u64), Vec<Line>> = pairs(self.lines()).into_iter().collect();
        let mut seen = HashSet::new();
        for receipt in receipts_in(&self.receipts, context) {
            let [number, from, to, n] = receipt;
            let line = behind.get(&(from, to)).and_then(|lines| lines.get(n as usize - 1));
            let known = line.map(|line| line.number);
            assert_eq!(known, Some(number), "{context}: receipt {receipt:?}");
            assert!(seen.insert(number), "{context}: line {number} has two receipts");
        }
    }
}

/// Chance from `CALLBOARD_SEED`, or from a fixed seed; and the seed.
pub(super) fn chance() -> (ChaCha8Rng, u64) {
    let seed = std::env::var("CALLBOARD_SEED").ok().map_or(33, |seed| seed.parse().unwrap());
    (ChaCha8Rng::seed_from_u64(seed), seed)
}

/// A number below `bound`.
pub(super) fn below(chance: &mut ChaCha8Rng, bound: usize) -> usize {
    (chance.next_u64() % bound.max(1) as u64) as usize
}

/// How many rounds: `CALLBOARD_ROUNDS` where that is less.
pub(super) fn n_rounds(most: usize) -> usize {
    let asked = std::env::var("CALLBOARD_ROUNDS").ok().map(|rounds| rounds.parse().unwrap());
    asked.map_or(most, |asked: usize| asked.min(most))
}
