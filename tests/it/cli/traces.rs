//! A whole trace, replayed, and what its journal then says.
//!
//! **Boundary**: what counts is the dump of the journal; the summary is only compared with it.

use super::program::{assert_accepted_once, assert_sound, finished, trace};

#[test]
fn m28_m114_every_line_of_a_trace_is_accepted_once_and_in_order_per_pair() {
    let file = trace();
    let lines = file.trace.lines();
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    let args = ["replay", file.path.to_str().unwrap(), "--json", "--data", data.to_str().unwrap()];

    let summary = finished(args).summary("the first run");
    println!("{summary}");
    assert_accepted_once(&data, lines, "the first run");
    assert_sound(&data, "the first run");
    for count in ["queued", "accepted", "handled"] {
        assert_eq!(summary[count], lines.len(), "{count}: {summary}");
    }
    for count in ["dead", "refused"] {
        assert_eq!(summary[count], 0, "{count}: {summary}");
    }

    let again = finished(args).summary("a finished run");
    for count in ["sessions", "queued", "accepted", "handled", "dead", "refused"] {
        assert_eq!(again[count], summary[count], "{count}: {again}");
    }
    assert_eq!(again["recovery"]["resumed"], 0, "{again}");
    assert_accepted_once(&data, lines, "a finished run");
}
