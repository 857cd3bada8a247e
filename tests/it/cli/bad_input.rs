//! What is wrong with the input is said in one sentence, and nothing is changed.
//!
//! **Invariant**: each fault has its exit code, and the directory it met is as it was, byte for
//! byte.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::program::{assert_sound, dump, finished};

/// A good small trace, and another.
const TRACE: &str = "from to time\n1 2 10\n2 1 11\n3 1 12\n1 2 13\n";
const OTHER: &str = "1 2 10\n2 1 11\n";

const SCENARIO: &str = "\
[run]
name = \"small\"

[[agents]]
label = \"basin\"
agent = \"sink\"
";

/// A directory with files in it, removed with the test.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Home(tempfile::tempdir().expect("a directory"));
        home.write("trace.txt", TRACE);
        home.write("other.txt", OTHER);
        home.write("scenario.toml", SCENARIO);
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file can be written");
    }

    /// A finished replay of the small trace.
    fn replayed(&self) -> PathBuf {
        let data = self.path("data");
        let run = finished(self.args(&["replay", "@trace.txt", "--data", "@data"]));
        assert_eq!(run.code, Some(0), "{run:?}");
        data
    }

    /// Words with `@name` written out as paths in this directory.
    fn args(&self, words: &[&str]) -> Vec<String> {
        let written_out = |word: &&str| match word.strip_prefix('@') {
            Some(name) => self.path(name).to_str().unwrap().to_owned(),
            None => (*word).to_owned(),
        };
        words.iter().map(written_out).collect()
    }

    fn content(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut content = BTreeMap::new();
        let mut left = vec![self.0.path().to_owned()];
        while let Some(path) = left.pop() {
            if path.is_dir() {
                let entries = fs::read_dir(&path).expect("a directory can be read");
                left.extend(entries.map(|entry| entry.expect("an entry").path()));
                content.insert(path, Vec::new());
            } else {
                // The lock file names its last holder, whatever became of it.
                let is_lock = path.file_name().is_some_and(|name| name == "lock");
                let bytes = if is_lock { Vec::new() } else { fs::read(&path).expect("a file") };
                content.insert(path, bytes);
            }
        }
        content
    }

    /// Runs `words` and checks the exit code, the sentence, and that nothing was changed.
    #[track_caller]
    fn assert_refused(&self, words: &[&str], code: i32, says: &str) {
        let before = self.content();
        self.assert_fails(words, code, says);
        let after = self.content();
        let names = |content: &BTreeMap<PathBuf, Vec<u8>>| {
            content.keys().cloned().collect::<Vec<PathBuf>>()
        };
        assert_eq!(names(&after), names(&before), "{words:?} made or removed files");
        for (path, bytes) in before {
            assert!(after[&path] == bytes, "{words:?} changed {}", path.display());
        }
    }

    #[track_caller]
    fn assert_fails(&self, words: &[&str], code: i32, says: &str) {
        let run = finished(self.args(words));
        assert_eq!(run.code, Some(code), "{words:?}: {run:?}");
        assert!(run.err.contains(says), "{words:?} does not say `{says}`: {run:?}");
        assert!(run.out.is_empty(), "{words:?}: {run:?}");
        if code != 2 {
            assert_eq!(run.err.lines().count(), 1, "{words:?}: {run:?}");
            assert!(run.err.starts_with("callboard: "), "{words:?}: {run:?}");
        }
    }
}

#[test]
fn a_bad_trace_is_refused_before_anything_is_made() {
    let home = Home::new();
    let replay = |trace: &str, code, says: &str| {
        home.assert_refused(&["replay", trace, "--data", "@data"], code, says);
    };
    replay("@missing.txt", 3, "no such file");
    fs::create_dir(home.path("directory")).expect("a directory can be made");
    replay("@directory", 1, "cannot read the trace");
    for (text, says) in [
        ("1 2 10\n1 2\n", "line 2: it does not have the three fields"),
        ("# note\n\n1 two 10\n", "line 3: a field is not a whole number"),
        ("1 2 10\n3 4 5\n7 7 12\n", "line 3: it goes from a person to the same person"),
        ("src dst time\n", "it holds no message"),
    ] {
        home.write("bad.txt", text);
        replay("@bad.txt", 1, says);
    }
    fs::write(home.path("bad.txt"), b"1 2 3\n1 \xff 3\n").expect("a file can be written");
    replay("@bad.txt", 1, "line 2: it is not UTF-8");
}

#[test]
fn a_bad_scenario_is_refused_with_line_and_column() {
    let home = Home::new();
    let run = |scenario: &str, code, says: &str| {
        home.assert_refused(&["run", scenario, "--data", "@data"], code, says);
    };
    run("@missing.toml", 3, "no such file");
    for (from, to, says) in [
        ("agent =", "agnet =", "line 6, column 1: there is no key `agnet` here"),
        ("name =", "nmae =", "line 2, column 1: there is no key `nmae` here"),
        ("[[agents]]", "[[actors]]", "line 4, column 3: there is no key `actors` here"),
        ("\"sink\"", "\"drain\"", "line 6, column 9: `drain` is none of"),
        ("\"basin\"", "\"basin", "line 5, column"),
        ("\"basin\"", "\"The Basin\"", "line 5, column 9: a label is"),
    ] {
        home.write("bad.toml", &SCENARIO.replacen(from, to, 1));
        run("@bad.toml", 1, says);
    }
    home.write("bad.toml", &format!("{SCENARIO}[limits]\nwindow = 0\n"));
    run("@bad.toml", 1, "line 8, column 10: window is 0 and must be 1 to 4096");
}

#[test]
fn wrong_flags_are_exit_code_2() {
    let home = Home::new();
    for (words, says) in [
        (&["replay"][..], "TRACE"),
        (&["repaly", "@trace.txt"], "repaly"),
        (&["replay", "@trace.txt", "--limit", "0"], "--limit"),
        (&["replay", "@trace.txt", "--limit", "many"], "--limit"),
        (&["replay", "@trace.txt", "--durability", "hopeful"], "hopeful"),
        (&["replay", "@trace.txt", "--data", "@data", "--durability", "memory"], "memory"),
        (
            &["replay", "@trace.txt", "--data", "@data", "--segment-bytes", "9000"],
            "multiple of 4096",
        ),
        (
            &["replay", "@trace.txt", "--data", "@data", "--segment-bytes", "4096"],
            "--segment-bytes",
        ),
        (&["load", "--sessions", "1"], "--sessions is 1 and must be 2 to"),
        (&["load", "--size", "10"], "--size is 10 and must be 64 to"),
        (&["load", "--duration", "10"], "a time is a number with its unit"),
        (&["load", "--duration", "1s", "--messages", "5"], "--messages"),
        (&["load", "--duration", "1s", "--restart-at", "1s"], "--restart-at must come before"),
        (&["load", "--restart-at", "1s", "--durability", "memory"], "keeps none"),
        (&["load", "--durability", "memory", "--data", "@data"], "memory"),
        (&["load", "--threshold", "p98<1ms"], "`p98` is none of"),
        (&["load", "--report", "@report.pdf"], "a report's name ends in"),
        (&["bench"], "limit"),
        (&["journal"], "journal"),
        (&["journal", "dump"], "DIR"),
    ] {
        home.assert_refused(words, 2, says);
    }
}

#[test]
fn a_data_directory_that_cannot_be_used_is_refused() {
    let home = Home::new();
    home.write("file", "not a directory");
    for words in [
        &["replay", "@trace.txt", "--data", "@file"][..],
        &["run", "@scenario.toml", "--data", "@file"],
        &["journal", "verify", "@file"],
        &["journal", "dump", "@file"],
        &["load", "--data", "@file"],
        &["load", "--restart-at", "1s", "--data", "@file"],
        &["bench", "limit", "--data", "@file"],
    ] {
        home.assert_refused(words, 1, "file is a file and not a data directory");
    }
    let below = "file is a file and so nothing can lie below it";
    for words in [
        &["replay", "@trace.txt", "--data", "@file/below"][..],
        &["run", "@scenario.toml", "--data", "@file/below/it"],
        &["journal", "verify", "@file/below"],
        &["journal", "dump", "@file/below"],
    ] {
        home.assert_refused(words, 1, below);
    }
    home.assert_refused(&["journal", "verify", "@missing"], 3, "missing");
    home.assert_refused(&["journal", "dump", "@missing"], 3, "missing");
    fs::create_dir(home.path("empty")).expect("a directory can be made");
    home.assert_refused(&["journal", "verify", "@empty"], 3, "no journal");
    home.assert_refused(&["journal", "dump", "@empty"], 3, "no journal");
    home.assert_refused(&["replay", "@trace.txt", "--receipts", "@no/receipts"], 3, "receipts");
    home.assert_refused(&["load", "--report", "@no/report.json"], 3, "write a report to");
    home.assert_refused(&["load", "--baseline", "@missing.json"], 3, "read the baseline");
    home.assert_refused(&["load", "--baseline", "@trace.txt"], 1, "is no report of a load");
    home.assert_refused(&["bench", "limit", "--data", "@missing"], 3, "missing");
}

#[test]
#[cfg(unix)]
fn a_directory_without_the_right_to_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let sealed = home.path("sealed");
    fs::create_dir(&sealed).expect("a directory can be made");
    fs::set_permissions(&sealed, fs::Permissions::from_mode(0o555)).expect("it is ours");
    if fs::write(sealed.join("probe"), "").is_ok() {
        println!("this user may write anywhere: the kernel's own directory is refused instead");
        home.assert_refused(&["replay", "@trace.txt", "--data", "/proc/callboard"], 1, "/proc");
        return;
    }
    home.assert_refused(&["replay", "@trace.txt", "--data", "@sealed"], 1, "sealed");
    home.assert_refused(&["replay", "@trace.txt", "--data", "@sealed/data"], 1, "sealed");
}

#[test]
fn a_directory_of_another_trace_or_scenario_is_refused() {
    let home = Home::new();
    let data = home.replayed();
    let events = dump(&data, "before");
    for words in [
        &["replay", "@other.txt", "--data", "@data", "--receipts", "@receipts"][..],
        &["run", "@scenario.toml", "--data", "@data"],
        &["load", "--data", "@data"],
        &["load", "--restart-at", "1s", "--data", "@data"],
    ] {
        home.assert_fails(words, 1, "another trace or scenario");
        assert_eq!(dump(&data, "after"), events, "{words:?} left something in the journal");
        assert_sound(&data, "after");
        assert!(!home.path("receipts").exists(), "{words:?} made a file for receipts");
    }
}

#[test]
fn m51_a_directory_of_a_newer_version_is_refused() {
    let home = Home::new();
    let meta = home.replayed().join("store.meta");
    let mut bytes = fs::read(&meta).expect("store.meta can be read");
    bytes.truncate(bytes.len() - 4);
    bytes[8] += 1;
    let checksum = crc32c::crc32c(&bytes).to_le_bytes();
    bytes.extend(checksum);
    fs::write(&meta, bytes).expect("store.meta can be written");
    for words in [
        &["replay", "@trace.txt", "--data", "@data"][..],
        &["journal", "verify", "@data"],
        &["journal", "dump", "@data"],
    ] {
        home.assert_refused(words, 1, "version");
    }
}

#[test]
fn f36_a_journal_without_its_description_is_damaged_for_every_verb() {
    let home = Home::new();
    fs::remove_file(home.replayed().join("store.meta")).expect("store.meta can be removed");
    for words in [
        &["replay", "@trace.txt", "--data", "@data"][..],
        &["journal", "verify", "@data"],
        &["journal", "dump", "@data"],
    ] {
        home.assert_refused(words, 1, "store.meta is missing although there is a journal");
    }
}

#[test]
fn a_damaged_directory_is_refused_and_verify_says_where() {
    let home = Home::new();
    let data = home.replayed();
    let segment = first_segment(&data);
    let mut bytes = fs::read(&segment).expect("a segment can be read");
    bytes[8] ^= 1;
    fs::write(&segment, bytes).expect("a segment can be written");

    let before = home.content();
    let verify = finished(home.args(&["journal", "verify", "@data", "--json"]));
    assert_eq!(verify.code, Some(1), "{verify:?}");
    let report: serde_json::Value = serde_json::from_str(&verify.out).expect("a report");
    assert!(report["damage"].as_array().is_some_and(|damage| !damage.is_empty()), "{report}");
    assert!(home.content() == before, "verify changed something");
    let dump = finished(home.args(&["journal", "dump", "@data"]));
    assert_eq!(dump.code, Some(1), "{dump:?}");
    assert!(dump.err.contains("damaged frames were left out"), "{dump:?}");

    // With the saved heads the damage is not met; without them every header is needed.
    fs::remove_file(data.join("heads")).expect("the heads can be removed");
    home.assert_refused(&["replay", "@trace.txt", "--data", "@data"], 1, "JOURNAL_CORRUPT");
    fs::write(data.join("store.meta"), b"nonsense").expect("store.meta can be written");
    home.assert_refused(&["replay", "@trace.txt", "--data", "@data"], 1, "store.meta");
    home.assert_refused(&["journal", "verify", "@data"], 1, "store.meta");
}

#[test]
fn a_session_that_is_not_there_is_exit_code_3() {
    let home = Home::new();
    home.replayed();
    home.assert_refused(&["journal", "dump", "@data", "--session", "p9"], 3, "`p9`");
    let dump = finished(home.args(&["journal", "dump", "@data", "--session", "p3"]));
    assert_eq!(dump.code, Some(0), "{dump:?}");
    let lines: Vec<serde_json::Value> =
        dump.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.iter().all(|line| line["label"] == "p3"), "{dump:?}");
    assert_eq!(lines[0]["event"]["type"], "created", "{dump:?}");
    let id = lines[0]["session"].as_str().expect("an id");
    let by_id = finished(home.args(&["journal", "dump", "@data", "--session", id]));
    assert_eq!(by_id.out, dump.out, "{by_id:?}");
    assert_eq!(lines[1]["event"]["target"], "p1", "{dump:?}");
}

fn first_segment(data: &Path) -> PathBuf {
    let mut left = vec![data.to_owned()];
    let mut files = Vec::new();
    while let Some(path) = left.pop() {
        for entry in fs::read_dir(path).expect("a directory can be read") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { left.push(path) } else { files.push(path) }
        }
    }
    let large = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.len() >= 1 << 20);
    files.into_iter().filter(large).min().expect("a segment")
}
