//! A run that would never be quiet ends.

use std::fs;
use std::sync::Arc;

use callboard::bus::Origin;
use callboard::persist::RealDisk;
use callboard::sim::trace::Trace;
use callboard::{Durability, Error};

use super::program::finished;
use crate::house;

const TRACE: &str = "1 2 10\n2 1 11\n";

#[test]
fn a_directory_with_a_damaged_session_ends_the_run_before_anything_is_sent() {
    let home = tempfile::tempdir().unwrap();
    let (data, path) = (home.path().join("data"), home.path().join("trace.txt"));
    fs::write(&path, TRACE).unwrap();
    let hash = Trace::parse(TRACE.as_bytes()).unwrap().hash();
    let victim = house::run(async {
        let disk = Arc::new(RealDisk::new(data.clone()));
        let (builder, _gate) = house::builder(disk, house::config(Durability::Sync));
        let origin = Origin { kind: "trace".to_owned(), hash };
        let bus = builder.dedicate(origin).open().await?;
        let [lead, victim] =
            house::circle(&bus, [("lead", "driver"), ("victim", "driver")]).await?;
        house::send_all(&bus, (lead, victim), ["accepted"]).await?;
        while bus.inspect(lead).await?.unsettled > 0 {
            tokio::task::yield_now().await;
        }
        bus.shut_down().await?;
        Ok::<_, Error>(victim)
    })
    .unwrap();

    let segment = fs::read_dir(data.join("log")).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.min().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let frame = format!("[{{\"created\":{{\"id\":\"{victim}\"");
    let at = bytes.windows(frame.len()).position(|window| window == frame.as_bytes()).unwrap();
    bytes[at] ^= 1;
    fs::write(&segment, bytes).unwrap();

    for _ in 0..2 {
        let words = ["replay", path.to_str().unwrap(), "--data", data.to_str().unwrap()];
        let run = finished(words);
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(run.err.contains("it cannot go on"), "{run:?}");
        assert!(run.err.contains("damaged: `victim`"), "{run:?}");
        assert_eq!(run.err.lines().count(), 1, "{run:?}");
    }
    let dump = finished(["journal", "dump", data.to_str().unwrap()]);
    assert!(!dump.out.contains("\"p1\""), "a session was made: {dump:?}");
    let verify = finished(["journal", "verify", data.to_str().unwrap()]);
    assert!(verify.out.contains("a frame is damaged, of victim"), "{verify:?}");
    let verify = finished(["journal", "verify", "--json", data.to_str().unwrap()]);
    let report: serde_json::Value = serde_json::from_str(&verify.out).unwrap();
    assert_eq!(report["damage"][0]["labels"][0], "victim", "{report}");
    assert_eq!(report["damage"][0]["sessions"][0], victim.to_string(), "{report}");
}
