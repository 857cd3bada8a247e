//! The scenario that is shipped.
//!
//! **Boundary**: runs the file as it lies in the repository.

use super::program::{assert_sound, dump, finished};

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
