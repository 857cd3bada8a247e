//! Loads through the binary, small ones: what they send, count and report.
//!
//! **Boundary**: no time is asserted; what a load takes is for people to look at.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use callboard::persist::RealDisk;
use callboard::persist::log::LogReader;
use callboard::persist::store::{FrameKind, StoredFrame};
use callboard::protocol::SessionId;
use serde_json::Value;

use super::program::{Finished, assert_sound, dump, finished, is_long};

/// Flags that make a load small.
const SMALL: [&str; 6] = ["load", "--sessions", "20", "--messages", "400", "--json"];

fn small(flags: &[&str]) -> Finished {
    finished(SMALL.iter().chain(flags))
}

/// What holds of every load that was not disturbed.
fn assert_whole(report: &Value, messages: u64) {
    for count in ["sent", "queued", "accepted", "handled"] {
        assert_eq!(report[count], messages, "{count}: {report}");
    }
    for count in ["lost", "duplicates"] {
        assert_eq!(report[count], 0, "{count}: {report}");
    }
    assert_eq!(report["errors"], serde_json::json!({}), "{report}");
    let series = report["series"].as_array().expect("a series");
    for count in ["sent", "queued", "accepted", "handled"] {
        let sum: u64 = series.iter().map(|second| second[count].as_u64().unwrap()).sum();
        assert_eq!(sum, messages, "{count} in the series: {report}");
    }
    for stage in ["send_receipt", "send_accepted", "send_handled"] {
        let latency = &report["latency_us"][stage];
        for kind in ["corrected", "raw"] {
            let shares = ["p50", "p90", "p99", "p999", "max"];
            let times = shares.map(|share| latency[kind][share].as_u64().unwrap());
            assert!(times[0] > 0 && times.is_sorted(), "{stage}: {report}");
        }
        let max = |kind: &str| latency[kind]["max"].as_u64();
        assert!(max("corrected") >= max("raw"), "{stage}: {report}");
    }
}

#[test]
fn m114_every_kind_of_pairs_is_loaded_in_an_open_and_in_a_closed_loop() {
    for pairs in ["ring", "random", "hub", "groups"] {
        for rate in ["0", "4000"] {
            let context = format!("{pairs} at {rate}");
            let run = small(&["--pairs", pairs, "--rate", rate, "--durability", "memory"]);
            let report = run.summary(&context);
            assert_whole(&report, 400);
            assert_eq!(report["counted_from"], "sessions", "{context}");
            assert_eq!(report["ratio_to_limit"], Value::Null, "{context}: memory has no disk");
        }
    }
}

#[test]
fn m114_a_load_on_disk_counts_every_event_and_compares_itself_with_the_disk() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    let run = small(&["--rate", "4000", "--seed", "7", "--data", data.to_str().unwrap()]);
    let report = run.summary("on disk");
    assert_whole(&report, 400);
    assert_eq!(report["counted_from"], "events", "{report}");
    assert_eq!(report["seed"], 7);
    for figure in ["limit_messages_per_s", "ratio_to_limit", "messages_per_s"] {
        assert!(report[figure].as_f64().is_some_and(|it| it > 0.0), "{figure}: {report}");
    }
    assert!(report["bytes_per_message"].as_f64().is_some_and(|it| it > 512.0), "{report}");
    assert_sound(&data, "after a load");
    let accepted = dump(&data, "after a load");
    let accepted = accepted.iter().filter(|line| line["event"]["type"] == "accepted");
    assert_eq!(accepted.count(), 400);
}

#[test]
fn m97_thousands_of_sessions_lose_and_double_nothing() {
    let (sessions, messages) = if is_long() { ("5000", "100000") } else { ("1000", "10000") };
    let run = finished([
        "load",
        "--sessions",
        sessions,
        "--messages",
        messages,
        "--pairs",
        "random",
        "--json",
    ]);
    let report = run.summary("thousands of sessions");
    assert_whole(&report, messages.parse().unwrap());
    let machine = report["machine"]["cores"].as_u64();
    println!("{sessions} sessions on {machine:?} cores: {report}");
    if cfg!(target_os = "linux") {
        assert!(report["rss_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{report}");
        assert!(report["cpu_us_per_message"].as_f64().is_some(), "{report}");
    }
}

#[test]
fn a_cleaned_log_is_counted_by_the_totals_of_its_sessions() {
    let run = small(&[
        "--history",
        "drop",
        "--segment-bytes",
        "65536",
        "--heads-every",
        "65536",
        "--snapshot-every",
        "4",
        "--messages",
        "4000",
    ]);
    assert_eq!(run.code, Some(2), "messages twice: {run:?}");
    let run = finished([
        "load",
        "--sessions",
        "20",
        "--messages",
        "4000",
        "--json",
        "--history",
        "drop",
        "--segment-bytes",
        "65536",
        "--heads-every",
        "65536",
        "--snapshot-every",
        "4",
    ]);
    let report = run.summary("a cleaned log");
    assert_whole(&report, 4_000);
    assert_eq!(report["counted_from"], "sessions", "{report}");
    assert!(report["bytes_per_message"].as_f64().is_some_and(|it| it > 512.0), "{report}");
}

#[test]
fn f19_what_a_session_keeps_grows_with_its_senders_and_not_with_their_messages() {
    let [few, many] = ["1000", "10000"].map(|messages| {
        let home = tempfile::tempdir().expect("a directory");
        let data = home.path().join("data");
        let run = finished([
            "load",
            "--sessions",
            "10",
            "--pairs",
            "random",
            "--size",
            "64",
            "--messages",
            messages,
            "--snapshot-every",
            "8",
            "--json",
            "--data",
            data.to_str().unwrap(),
        ]);
        assert_whole(&run.summary(messages), messages.parse().unwrap());
        largest_snapshot(&data)
    });
    println!("the largest snapshots have {few} and {many} bytes");
    assert!(few > 0 && many < 2 * few, "a snapshot of {few} bytes grew to {many}");
}

/// Bytes of the largest snapshot of a session in the log.
fn largest_snapshot(data: &Path) -> usize {
    let reader = LogReader::open(Arc::new(RealDisk::new(data))).expect("a journal");
    let mut largest = 0;
    let mut look = |frame: StoredFrame| {
        if frame.kind != FrameKind::Events && frame.session != SessionId::SUPERVISOR {
            largest = largest.max(frame.payload.len());
        }
    };
    reader.frames(&mut look).expect("frames");
    largest
}

#[test]
fn m98_f21_a_burst_far_over_a_targets_room_is_refused_by_code_and_none_is_lost() {
    let run = finished([
        "load",
        "--sessions",
        "4500",
        "--pairs",
        "hub",
        "--rate",
        "1000000",
        "--messages",
        "9000",
        "--durability",
        "memory",
        "--json",
    ]);
    let report = run.summary("a burst");
    let errors = report["errors"].as_object().expect("errors by code");
    assert!(errors.keys().all(|code| code == "MAILBOX_FULL"), "{report}");
    let n_errors: u64 = errors.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(report["sent"], 9_000, "{report}");
    assert_eq!(report["handled"].as_u64().unwrap() + n_errors, 9_000, "{report}");
    assert_eq!((&report["lost"], &report["duplicates"]), (&0.into(), &0.into()), "{report}");
}

#[test]
fn a_ramp_warms_up_and_a_duration_ends() {
    let flags = ["load", "--sessions", "10", "--durability", "memory", "--json"];
    let times = ["--ramp", "200ms", "--duration", "300ms"];
    for rate in ["0", "1000"] {
        let run = finished(flags.iter().chain(&times).chain(&["--rate", rate]));
        let report = run.summary("with a ramp");
        assert_eq!(report["load"]["ramp_s"], 0.2, "{report}");
        let (sent, handled) = (&report["sent"], &report["handled"]);
        assert_eq!(sent, handled, "{report}");
        if rate == "1000" {
            assert_eq!(sent, 400, "{report}");
        }
    }
}

#[test]
fn reports_have_the_form_of_their_names() {
    let home = tempfile::tempdir().expect("a directory");
    let file = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let files = ["r.json", "r.csv", "r.html", "r.hgrm"].map(file);
    let flags = files.iter().flat_map(|file| ["--report", file]);
    let flags: Vec<&str> = flags.chain(["--durability", "memory"]).collect();
    let printed = small(&flags).summary("reports");
    let [json, csv, html, hgrm] = files.map(|file| fs::read_to_string(file).expect("a report"));
    assert_eq!(serde_json::from_str::<Value>(&json).expect("JSON"), printed);
    let n_seconds = printed["series"].as_array().unwrap().len();
    assert_eq!(csv.lines().count(), n_seconds + 1, "{csv}");
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"), "{html}");
    assert!(hgrm.contains("Total count    =          400"), "{hgrm}");

    let old = file("r.json");
    let baseline = ["--baseline", &old, "--durability", "memory"];
    let words = SMALL.iter().filter(|word| **word != "--json").chain(&baseline);
    let compared = finished(words);
    assert_eq!(compared.code, Some(0), "{compared:?}");
    for part in ["now / before", "send to accepted", "20 sessions, ring, closed loop"] {
        assert!(compared.out.contains(part), "{part} is missing in {}", compared.out);
    }
}

#[test]
fn a_missed_threshold_is_told_after_the_figures_with_an_exit_code_of_its_own() {
    let met = ["--threshold", "lost==0", "--threshold", "send_handled.max<1h"];
    let wrong = small(&met);
    assert_eq!(wrong.code, Some(2), "an hour is no unit of a threshold: {wrong:?}");
    let met = ["--threshold", "lost==0", "--threshold", "send_handled.max<1000s"];
    let run = small(&[&met[..], &["--durability", "memory"]].concat());
    let report = run.summary("thresholds that are met");
    assert!(report["thresholds"].as_array().unwrap().iter().all(|it| it["met"] == true));

    let missed = ["--threshold", "messages_per_s<1", "--threshold", "lost==0"];
    let run = small(&[&missed[..], &["--durability", "memory"]].concat());
    assert_eq!(run.code, Some(99), "{run:?}");
    assert_eq!(run.err, "callboard: missed: messages_per_s<1\n");
    let report: Value = serde_json::from_str(&run.out).expect("the report all the same");
    assert_eq!(report["thresholds"][0]["met"], false, "{report}");
    assert_eq!(report["thresholds"][1]["met"], true, "{report}");
}

#[test]
fn the_limit_of_a_disk_is_measured_and_nothing_stays() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().to_str().unwrap();
    let limit = ["bench", "limit", "--data", dir, "--duration", "10ms"];
    let run = finished(limit.iter().chain(&["--json"]));
    let report = run.summary("the limit");
    assert!(report["messages_per_s"].as_f64().is_some_and(|it| it > 0.0), "{report}");
    assert_eq!(
        (&report["record_bytes"], &report["records_per_group"]),
        (&400.into(), &1_000.into())
    );
    let shown = finished(limit);
    assert!(shown.out.contains("messages per second"), "{shown:?}");
    assert_eq!(fs::read_dir(home.path()).expect("a directory").count(), 0);
}
