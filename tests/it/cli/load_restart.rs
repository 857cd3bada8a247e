//! Loads whose bus is killed in the middle, and loads that are interrupted.
//!
//! **Invariant**: the clock and the figures outlive the kill; the journal says what became of a
//! send whose receipt was lost.

use serde_json::Value;

use super::program::{Running, assert_sound, callboard, dump, finished};

fn killed(flags: &[&str]) -> Value {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    let base = ["load", "--sessions", "50", "--restart-at", "300ms", "--json", "--data"];
    let run = finished(base.iter().chain(&[data.to_str().unwrap()]).chain(flags));
    let report = run.summary("a load with a kill");
    assert_eq!((&report["lost"], &report["duplicates"]), (&0.into(), &0.into()), "{report}");
    assert_eq!(report["errors"], serde_json::json!({}), "{report}");
    for count in ["queued", "accepted", "handled"] {
        assert_eq!(report[count], report["sent"], "{count}: {report}");
    }
    let restarts = report["restarts"].as_array().expect("restarts");
    assert_eq!(restarts.len(), 1, "{report}");
    assert!(restarts[0]["gap_s"].as_f64().is_some_and(|gap| gap > 0.0), "{report}");
    assert_sound(&data, "after a kill");
    let n_accepted = dump(&data, "after a kill");
    let n_accepted = n_accepted.iter().filter(|line| line["event"]["type"] == "accepted").count();
    assert_eq!(n_accepted as u64, report["sent"], "{report}");
    report
}

#[test]
fn m97_m114_a_bus_that_is_killed_under_an_open_load_loses_and_doubles_nothing() {
    let report = killed(&["--rate", "2000", "--duration", "800ms", "--pairs", "random"]);
    assert_eq!(report["sent"], 1_600, "{report}");
    // What was meant to be sent while the bus was down counts from that moment.
    let gap = report["restarts"][0]["gap_s"].as_f64().unwrap() * 1e6;
    let receipt = &report["latency_us"]["send_receipt"]["corrected"]["max"];
    assert!(receipt.as_f64().is_some_and(|longest| longest >= gap * 0.9), "{report}");
}

#[test]
fn m97_m114_a_bus_that_is_killed_under_a_closed_load_goes_on_with_every_client() {
    let report = killed(&["--duration", "800ms", "--durability", "written"]);
    assert!(report["sent"].as_u64().is_some_and(|sent| sent > 50), "{report}");
}

#[test]
fn a_load_that_is_over_before_the_kill_says_so() {
    let words = ["load", "--sessions", "2", "--messages", "1", "--restart-at", "1h"];
    let run = finished(words);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.err.contains("the load was over before --restart-at"), "{run:?}");
    assert!(run.out.is_empty(), "{run:?}");
}

#[test]
fn an_interrupted_load_reports_nothing_and_leaves_no_process() {
    let home = tempfile::tempdir().expect("a directory");
    for restart in [&[][..], &["--restart-at", "50m"]] {
        let data = home.path().join(format!("data-{}", restart.len()));
        let base = ["load", "--sessions", "5", "--rate", "100", "--duration", "1h", "--data"];
        let directory = [data.to_str().unwrap()];
        let words = base.iter().chain(&directory).chain(restart);
        let mut run = Running::start(callboard(words));
        assert!(run.wait_until(|| data.join("lock").exists()), "it was over before");
        run.signal("INT");
        let stopped = run.finish();
        assert_eq!(stopped.code, Some(130), "{stopped:?}");
        assert!(stopped.out.is_empty(), "{stopped:?}");
        assert!(stopped.err.contains("a load does not go on"), "{stopped:?}");
        // Nobody holds the directory any more, however far the load had come with it.
        let words = ["load", "--sessions", "2", "--messages", "1", "--data"];
        let other = finished(words.iter().chain(&directory));
        assert!(matches!(other.code, Some(0 | 1)), "{other:?}");
    }
}
