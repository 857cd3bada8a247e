//! Looking into a data directory that another process holds.
//!
//! **Invariant**: whoever only looks needs no lock and changes nothing.

use super::program::{LineCounter, Running, callboard, dump, finished, trace};

#[test]
fn m58_a_held_store_can_be_dumped_and_verified_and_a_second_run_is_refused() {
    let file = trace();
    let home = tempfile::tempdir().expect("a directory");
    let (data, receipts) = (home.path().join("data"), home.path().join("receipts"));
    let (trace, data_text) = (file.path.to_str().unwrap(), data.to_str().unwrap());
    let args =
        ["replay", trace, "--data", data_text, "--receipts", receipts.to_str().unwrap(), "--json"];
    let mut written = LineCounter::new(&receipts);
    let mut holder = Running::start(callboard(args));
    assert!(holder.wait_until(|| written.count() > 500), "it was over before");
    holder.signal("STOP");

    let second = finished(["replay", trace, "--data", data_text]);
    assert_eq!(second.code, Some(75), "{second:?}");
    let pid = holder.0.id().to_string();
    assert!(second.err.contains(&pid), "process {pid} is not named: {second:?}");

    let verify = finished(["journal", "verify", data_text]);
    assert_eq!(verify.code, Some(0), "{verify:?}");
    let n_queued = |context| {
        let shown = dump(&data, context).into_iter();
        shown.filter(|shown| shown["event"]["type"] == "queued").count()
    };
    let held = n_queued("held");
    assert!(held > 500, "{held} are queued");
    assert_eq!(n_queued("held, again"), held);

    holder.signal("CONT");
    assert_eq!(holder.finish().code, Some(0));
    assert_eq!(n_queued("free"), file.trace.lines().len());
}
