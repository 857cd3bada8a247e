//! The scenario that is shipped.
//!
//! **Boundary**: runs the file as it lies in the repository.

use std::fs;
use std::time::{Duration, Instant};

use super::program::{Running, assert_sound, callboard, dump, finished};

const NEWSROOM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/newsroom.toml");

/// The start, the lead's 40 stories, 10 answers of the fact checker, 30 stories to 4 reporters
/// each, and each of those to the copy desk and the archive.
const MESSAGES: u64 = 1 + 40 + 10 + 30 * 4 + 30 * 4 * 2;

#[test]
fn the_newsroom_runs_until_all_is_quiet_and_a_second_run_sends_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    let args = ["run", NEWSROOM, "--json", "--data", data.to_str().unwrap()];
    for context in ["the first run", "the second run"] {
        let summary = finished(args).summary(context);
        assert_eq!(summary["sessions"], 12, "{context}: {summary}");
        for count in ["queued", "accepted", "handled"] {
            assert_eq!(summary[count], MESSAGES, "{context}: {count}: {summary}");
        }
        assert_eq!(summary["dead"], 0, "{context}: {summary}");
        assert_sound(&data, context);
    }
    let filed = dump(&data, "the newsroom")
        .into_iter()
        .filter(|shown| shown["label"] == "copy-desk" && shown["event"]["type"] == "accepted");
    assert_eq!(filed.count(), 120);
}

#[test]
fn the_newsroom_runs_in_memory_and_tells_people() {
    let finished = finished(["run", NEWSROOM, "--durability", "memory"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.out.contains("handled"), "{finished:?}");
    assert!(finished.err.is_empty(), "{finished:?}");
}

/// The newsroom with room for next to nothing: sends are refused all the time.
fn crowded(home: &std::path::Path) -> String {
    let text = fs::read_to_string(NEWSROOM).expect("the newsroom can be read");
    let crowded = text
        .replace("pending_max = 256", "pending_max = 2")
        .replace("sends_per_turn = 512", "sends_per_turn = 3");
    assert_ne!(text, crowded);
    let path = home.join("crowded.toml");
    fs::write(&path, crowded).expect("a file can be written");
    path.to_str().unwrap().to_owned()
}

#[test]
fn f11_without_room_every_story_is_still_filed_once() {
    let home = tempfile::tempdir().expect("a directory");
    let crowded = crowded(home.path());
    let summary = finished(["run", &crowded, "--json", "--durability", "memory"]);
    let summary = summary.summary("the crowded newsroom");
    for count in ["queued", "accepted", "handled"] {
        assert_eq!(summary[count], MESSAGES, "{count}: {summary}");
    }
}

#[test]
fn a_newsroom_that_is_killed_again_and_again_files_every_story_once() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    let crowded = crowded(home.path());
    let args = ["run", &crowded, "--json", "--data", data.to_str().unwrap()];
    let mut n_killed = 0;
    for kill in 1..=12 {
        let (start, time) = (Instant::now(), Duration::from_millis(12 * kill));
        let mut run = Running::start(callboard(args));
        if run.wait_until(|| start.elapsed() >= time) && !run.is_over() {
            run.signal("KILL");
            n_killed += u32::from(run.finish().code.is_none());
        }
    }
    println!("{n_killed} kills met an unfinished run");
    let summary = finished(args).summary("after the kills");
    for count in ["queued", "accepted", "handled"] {
        assert_eq!(summary[count], MESSAGES, "{count}: {summary}");
    }
    assert_sound(&data, "after the kills");
    let accepted = dump(&data, "after the kills")
        .into_iter()
        .filter(|shown| shown["event"]["type"] == "accepted" && is_label(shown, "archive"));
    let mut bodies: Vec<String> =
        accepted.map(|shown| shown["event"]["message"]["body"]["text"].to_string()).collect();
    bodies.sort_unstable();
    assert_eq!(bodies.len(), 120);
    bodies.dedup();
    assert_eq!(bodies.len(), 30, "each of 30 stories comes from each of 4 reporters");
}

/// Whether the line is of the session with this label, or of the one made again after a kill.
fn is_label(shown: &serde_json::Value, label: &str) -> bool {
    shown["label"].as_str().is_some_and(|shown| shown.split("-remade-").next() == Some(label))
}
