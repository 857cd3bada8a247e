//! What a run says beside its summary: logs, warnings, notes, and what could not be said.

use std::fs;
use std::path::{Path, PathBuf};

use super::program::{Finished, Running, assert_sound, callboard, finished};

const TRACE: &str = "1 2 10\n2 1 11\n3 1 12\n";

/// The relay owes its second letter for want of room, and may not keep what it owes.
const LOST: &str = r#"
run = { name = "lost" }
agents = [
    { label = "tap", agent = "source", to = ["pipe"], messages = 3 },
    { label = "pipe", agent = "relay", to = ["basin", "basin"] },
    { label = "basin", agent = "sink" },
]
links = [{ pair = ["tap", "pipe"] }, { pair = ["pipe", "basin"] }]
limits = { pending_max = 1, attempts_max = 1, agent_state_max = 100 }
"#;

fn written(home: &Path, name: &str, text: &str) -> PathBuf {
    let path = home.join(name);
    fs::write(&path, text).expect("a file can be written");
    path
}

fn logged(filter: &str, args: &[&str]) -> Finished {
    callboard(args).env("CALLBOARD_LOG", filter).output().expect("the binary starts").into()
}

#[test]
fn m93_messages_that_came_to_no_good_end_are_told_in_one_sentence() {
    let home = tempfile::tempdir().expect("a directory");
    let scenario = written(home.path(), "lost.toml", LOST);
    let data = home.path().join("data");
    let args = ["run", scenario.to_str().unwrap(), "--json", "--data", data.to_str().unwrap()];
    let run = finished(args);
    let summary = run.summary("lost");
    assert_eq!(summary["dead"], 3, "{summary}");
    let how = format!("`callboard journal dump {}` says why", data.display());
    let warning = format!("callboard: warning: 3 messages are dead and 0 were refused; {how}\n");
    assert_eq!(run.err, warning);
}

#[test]
fn a_log_is_written_where_it_is_asked_for_and_a_malformed_filter_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let trace = written(home.path(), "trace.txt", TRACE);
    let args = ["replay", trace.to_str().unwrap(), "--durability", "memory"];
    let info = logged("callboard=info", &args);
    assert_eq!(info.code, Some(0), "{info:?}");
    assert!(info.err.contains("the bus is open"), "{info:?}");
    assert!(info.err.contains("the bus has stopped"), "{info:?}");
    assert!(!info.err.contains("a session is made"), "{info:?}");
    let debug = logged("debug", &args);
    assert_eq!(debug.err.matches("a session is made").count(), 3, "{debug:?}");
    assert!(!debug.err.contains('\u{1b}'), "a file gets no colours: {debug:?}");
    assert!(logged("", &args).err.is_empty());
    for filter in ["callboard=loud", "[", "a=b=c"] {
        let refused = logged(filter, &args);
        assert_eq!(refused.code, Some(2), "{filter}: {refused:?}");
        let says = format!("callboard: CALLBOARD_LOG is `{filter}` and no filter");
        assert!(refused.err.starts_with(&says), "{refused:?}");
        assert_eq!(refused.err.lines().count(), 1, "{refused:?}");
    }
}

#[test]
fn a_log_whose_reader_has_gone_away_holds_up_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let trace = written(home.path(), "trace.txt", TRACE);
    let mut command = callboard(["replay", trace.to_str().unwrap(), "--durability", "memory"]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    command.env("CALLBOARD_LOG", "debug").stderr(writer);
    let run = Running::start(command).finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.out.contains("handled"), "{run:?}");
}

#[test]
fn a_journal_keeps_the_size_of_its_segments_whatever_is_asked_for() {
    let home = tempfile::tempdir().expect("a directory");
    let trace = written(home.path(), "trace.txt", TRACE);
    let data = home.path().join("data");
    let base = ["replay", trace.to_str().unwrap(), "--json", "--data", data.to_str().unwrap()];
    let with = |extra: &[&'static str]| {
        let run = finished(base.iter().chain(extra));
        assert!(run.summary("small segments")["handled"].as_u64().is_some());
        run.err
    };
    assert_eq!(with(&["--limit", "1", "--segment-bytes", "8192"]), "");
    assert_eq!(with(&["--limit", "2"]), "");
    let kept = format!("callboard: {} has segments of 8192 bytes and keeps them\n", data.display());
    assert_eq!(with(&["--segment-bytes", "65536"]), kept);
    assert_sound(&data, "small segments");
}

#[test]
fn a_first_line_with_digits_that_is_taken_for_a_header_is_shown() {
    let home = tempfile::tempdir().expect("a directory");
    for (header, is_shown) in [("1,2,3", true), ("u1 u2 u3", true), ("from to time", false)] {
        let trace = written(home.path(), "trace.txt", &format!("{header}\n{TRACE}"));
        let run = finished(["replay", trace.to_str().unwrap(), "--durability", "memory"]);
        assert_eq!(run.code, Some(0), "{run:?}");
        let note = format!("callboard: the first line is taken for a header: `{header}`\n");
        assert_eq!(run.err, if is_shown { note } else { String::new() });
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_summary_that_cannot_be_written_is_said_to_be_what_failed() {
    let home = tempfile::tempdir().expect("a directory");
    let trace = written(home.path(), "trace.txt", TRACE);
    let mut command = callboard(["replay", trace.to_str().unwrap(), "--durability", "memory"]);
    command.stdout(fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there"));
    let run: Finished = command.output().expect("the binary starts").into();
    assert_eq!(run.code, Some(1), "{run:?}");
    let says = "callboard: all is quiet, but the summary is not told: cannot write to stdout";
    assert!(run.err.starts_with(says), "{run:?}");
}

#[test]
fn a_message_too_large_for_small_segments_is_refused_before_anything_is_made() {
    let home = tempfile::tempdir().expect("a directory");
    let text = LOST.replace("messages = 3", "messages = 3, bytes = 4000");
    let text =
        text.lines().filter(|line| !line.starts_with("limits")).collect::<Vec<_>>().join("\n");
    let scenario = written(home.path(), "large.toml", &text);
    let data = home.path().join("data");
    let base = ["run", scenario.to_str().unwrap(), "--data", data.to_str().unwrap()];
    let small = finished(base.into_iter().chain(["--segment-bytes", "8192"]));
    assert_eq!(small.code, Some(1), "{small:?}");
    assert!(small.err.contains("line 4, column "), "{small:?}");
    assert!(small.err.contains("`message_max` is 3072"), "{small:?}");
    assert!(!data.exists());
}
