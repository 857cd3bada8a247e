//! Interrupted runs.
//!
//! **Invariant**: an interrupted run stops in order and can go on; what is temporary is removed.

use std::path::Path;

use super::program::{
    LineCounter, Running, assert_accepted_once, assert_sound, callboard, finished, trace,
};

#[test]
fn an_interrupted_replay_stops_in_order_and_goes_on_later() {
    let file = trace();
    let home = tempfile::tempdir().expect("a directory");
    let (data, receipts) = (home.path().join("data"), home.path().join("receipts"));
    let base = ["replay", file.path.to_str().unwrap(), "--data", data.to_str().unwrap(), "--json"];
    let mut written = LineCounter::new(&receipts);
    for signal in ["INT", "TERM", "HUP"] {
        let before = written.count();
        let args = base.into_iter().chain(["--receipts", receipts.to_str().unwrap()]);
        let mut run = Running::start(callboard(args));
        assert!(run.wait_until(|| written.count() > before), "{signal}: it was over before");
        run.signal(signal);
        let stopped = run.finish();
        assert_eq!(stopped.code, Some(130), "{signal}: {stopped:?}");
        assert!(stopped.out.is_empty(), "{signal}: {stopped:?}");
        assert!(stopped.err.starts_with("callboard: interrupted"), "{signal}: {stopped:?}");
        assert_sound(&data, signal);
    }
    let limit = (written.count() + 100).to_string();
    let went_on = finished(base.into_iter().chain(["--limit", &limit]));
    let summary = went_on.summary("the last run");
    assert_eq!(summary["recovery"]["cut_bytes"], 0, "{summary}");
    let queued = summary["queued"].as_u64().unwrap();
    assert!(queued >= limit.parse().unwrap(), "{summary}");
}

#[test]
fn a_temporary_directory_is_named_and_removed_also_after_an_interrupt() {
    let file = trace();
    let home = tempfile::tempdir().expect("a directory");
    let receipts = home.path().join("receipts");
    let args = ["replay", file.path.to_str().unwrap(), "--receipts", receipts.to_str().unwrap()];
    let mut run = Running::start(callboard(args));
    assert!(run.wait_until(|| LineCounter::new(&receipts).count() > 0), "it was over before");
    run.signal("INT");
    let stopped = run.finish();
    assert_eq!(stopped.code, Some(130), "{stopped:?}");
    assert!(!named(&stopped.err).exists(), "{stopped:?}");

    let done = finished(["replay", file.path.to_str().unwrap(), "--limit", "10"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(!named(&done.err).exists(), "{done:?}");
}

#[test]
fn a_limit_may_be_raised_later() {
    let file = trace();
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    for limit in [50, 400] {
        let (limit_text, context) = (limit.to_string(), format!("limit {limit}"));
        let trace = file.path.to_str().unwrap();
        let args =
            ["replay", trace, "--limit", &limit_text, "--json", "--data", data.to_str().unwrap()];
        assert_eq!(finished(args).summary(&context)["handled"], limit, "{context}");
        assert_accepted_once(&data, file.trace.first(Some(limit)), &context);
    }
}

/// The directory that stderr names.
fn named(err: &str) -> &Path {
    let named = err.split(' ').find(|word| word.contains("callboard-")).expect("a directory");
    Path::new(named)
}
