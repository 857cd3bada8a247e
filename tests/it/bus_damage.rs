//! Rot: one session's frames, or the supervisor's, are damaged below what is proved.

use callboard::persist::SimDisk;
use callboard::protocol::{Draft, SessionId};
use callboard::{Code, Durability};

use crate::house;
use crate::ledger::{Fate, Ledger};

/// Where a text stands in the log: files with offsets.
fn places(disk: &SimDisk, text: &str) -> Vec<(String, usize)> {
    let mut places = Vec::new();
    for (path, bytes) in disk.files() {
        let found = bytes.windows(text.len()).enumerate();
        let found = found.filter(|(_, window)| *window == text.as_bytes());
        places.extend(found.map(|(at, _)| (path.clone(), at)));
    }
    places
}

/// Damages a session's first frame.
fn damage(disk: &SimDisk, id: SessionId, bit: u8) {
    let places = places(disk, &format!("[{{\"created\":{{\"id\":\"{id}\""));
    assert_eq!(places.len(), 1, "the first frame stands somewhere once");
    for (path, at) in places {
        disk.flip_bit(&path, at + usize::from(bit) * 5, bit);
    }
}

#[test]
fn f59_f35_m35_m52_one_damaged_session_is_quarantined_and_everybody_else_runs() {
    for bit in 0..8 {
        house::run(async {
            let when = format!("bit {bit}");
            let disk = SimDisk::new();
            let config = house::config(Durability::Sync);
            let bus = house::open_on(&disk, &config).await?;
            let [lead, victim, other] =
                house::circle(&bus, [("lead", "sink"), ("victim", "driver"), ("other", "echo")])
                    .await?;
            house::send_all(&bus, (lead, victim), ["accepted"]).await?;
            house::send_all(&bus, (lead, other), ["before"]).await?;
            while bus.inspect(lead).await?.unsettled > 0 {
                tokio::task::yield_now().await;
            }
            bus.shut_down().await?;
            damage(&disk, victim, bit);

            for round in 0..2 {
                let bus = house::open_on(&disk, &config).await?;
                assert_eq!(bus.recovery().store.quarantined, [victim], "{when}");
                assert_eq!(bus.inspect(victim).await.unwrap_err().code(), Code::JournalCorrupt);
                let attached = bus.attach(victim).await.map(drop);
                assert_eq!(attached.unwrap_err().code(), Code::JournalCorrupt, "{when}");
                // Its mail stays queued, and others talk.
                let kept = house::send_all(&bus, (lead, victim), ["kept"]).await?;
                let talk = house::send_all(&bus, (lead, other), ["one", "two"]).await?;
                while bus.inspect(lead).await?.unsettled > round + 1 {
                    tokio::task::yield_now().await;
                }
                let ledger = Ledger::read(&bus).await;
                ledger.check(&when);
                ledger.check_receipts(&kept, &when);
                ledger.check_receipts(&talk, &when);
                assert!(ledger.fates(lead, other).iter().all(|fate| *fate != Fate::Queued));
                assert_eq!(bus.inspect(lead).await?.unsettled, round + 1, "{when}");
                let late = house::create(&bus, &format!("late-{round}"), "sink").await?;
                bus.connect(lead, late).await?;
                bus.send(lead, Draft::text(late, "welcome")).await?;
                bus.shut_down().await?;
            }
            Ok::<(), callboard::Error>(())
        })
        .unwrap();
    }
}

#[test]
fn f36_f35_a_damaged_supervisor_keeps_the_bus_shut_and_nothing_is_deleted() {
    house::run(async {
        let disk = SimDisk::new();
        let config = house::config(Durability::Sync);
        let bus = house::open_on(&disk, &config).await?;
        let [lead, worker] = house::circle(&bus, [("lead", "sink"), ("worker", "driver")]).await?;
        let receipts = house::send_all(&bus, (lead, worker), ["1", "2"]).await?;
        bus.shut_down().await?;
        let [(path, at)] = &places(&disk, "[{\"provisioned\":")[..1] else { panic!("nowhere") };
        for bit in 0..8 {
            let before = disk.files();
            disk.flip_bit(path, at + 20, bit);
            let fault = house::open_on(&disk, &config).await.map(drop).unwrap_err();
            assert_eq!(fault.code(), Code::JournalCorrupt, "bit {bit}: {fault}");
            disk.flip_bit(path, at + 20, bit);
            let after = disk.files();
            for (path, bytes) in before.iter().filter(|(path, _)| path.contains("log")) {
                let kept = after.get(path).map(Vec::len);
                assert!(kept >= Some(bytes.len()), "bit {bit}: {path} was cut");
            }
        }
        // Made whole again, all is there.
        let bus = house::open_on(&disk, &config).await?;
        house::drain(&bus).await?;
        let ledger = Ledger::read(&bus).await;
        ledger.check_done("made whole");
        ledger.check_receipts(&receipts, "made whole");
        bus.shut_down().await
    })
    .unwrap();
}
