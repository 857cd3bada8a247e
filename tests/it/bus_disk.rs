//! Disks that fail under a running bus: full, broken, and well again.

use std::time::Duration;

use callboard::bus::{Bus, Inspection, Receipt};
use callboard::persist::SimDisk;
use callboard::persist::sim_disk::{CallKind, DiskFault};
use callboard::protocol::supervisor::Phase;
use callboard::protocol::{Draft, SessionId};
use callboard::{Code, Durability, Error};

use crate::house;
use crate::ledger::Ledger;

/// Sends until the store refuses; the receipts, and what it said.
async fn until_full(
    bus: &Bus,
    from: SessionId,
    to: SessionId,
) -> (Vec<(SessionId, Receipt)>, Error) {
    let mut receipts = Vec::new();
    loop {
        match bus.send_when_room(from, Draft::text(to, "x".repeat(400))).await {
            Ok(receipt) => receipts.push((from, receipt)),
            Err(error) => return (receipts, error),
        }
    }
}

/// Inspects a session; again where its load has just ended with what the disk refused.
async fn look(bus: &Bus, id: SessionId) -> Result<Inspection, Error> {
    loop {
        match bus.inspect(id).await {
            Err(Error::Fault(_)) => tokio::task::yield_now().await,
            answer => return answer,
        }
    }
}

#[test]
fn f43_m53_a_full_disk_refuses_sends_keeps_what_is_there_and_goes_on_with_room() {
    house::run(async {
        let disk = SimDisk::new();
        let mut config = house::small(Durability::Sync);
        config.limits.pending_max = 10_000;
        let bus = house::open_on(&disk, &config).await?;
        let [lead, echo, worker] =
            house::circle(&bus, [("lead", "sink"), ("echo", "echo"), ("worker", "driver")]).await?;
        let mut receipts = house::send_all(&bus, (lead, echo), ["before"]).await?;
        disk.set_capacity(Some(disk.used_bytes() + 40_000));
        for round in 0..3 {
            for target in [worker, echo] {
                let (sent, refusal) = until_full(&bus, lead, target).await;
                assert_eq!(refusal.code(), Code::StoreFull, "round {round}: {refusal}");
                receipts.extend(sent);
            }
            // Looking needs no room.
            for id in [lead, echo, worker] {
                look(&bus, id).await?;
            }
            let ledger = Ledger::read(&bus).await;
            ledger.check(&format!("full, round {round}"));
            ledger.check_receipts(&receipts, &format!("full, round {round}"));

            disk.set_capacity(Some(disk.used_bytes() + 60_000));
            loop {
                match bus.send_when_room(lead, Draft::text(echo, "again")).await {
                    Ok(receipt) => break receipts.push((lead, receipt)),
                    Err(error) => assert_eq!(error.code(), Code::StoreFull),
                }
                tokio::task::yield_now().await;
            }
        }
        disk.set_capacity(None);
        house::drain(&bus).await?;
        let ledger = Ledger::read(&bus).await;
        ledger.check_done("room again");
        ledger.check_receipts(&receipts, "room again");
        for id in [lead, echo, worker] {
            assert_eq!(phase_of(&bus, id).await?, Phase::Active, "a full disk is nobody's failure");
        }
        bus.shut_down().await?;
        let bus = house::open_on(&disk, &config).await?;
        assert!(Ledger::read(&bus).await == ledger, "reopened");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn f44_a_failed_flush_is_told_to_senders_and_readers_go_on_and_reopening_recovers() {
    for n in 1..12 {
        house::run(async {
            let disk = SimDisk::new();
            let config = house::config(Durability::Sync);
            let bus = house::open_on(&disk, &config).await?;
            let [lead, echo, worker] =
                house::circle(&bus, [("lead", "sink"), ("echo", "echo"), ("worker", "driver")])
                    .await?;
            let mut receipts = house::send_all(&bus, (lead, worker), ["before"]).await?;
            let when = format!("flush {n}");
            let mut armed = disk.calls_of(CallKind::Sync) + n;
            disk.fail_kind(CallKind::Sync, armed, DiskFault::Io);
            let fault = loop {
                if disk.calls_of(CallKind::Sync) > armed && bus.fault().is_none() {
                    // A flush came between counting and arming.
                    armed = disk.calls_of(CallKind::Sync) + 1;
                    disk.fail_kind(CallKind::Sync, armed, DiskFault::Io);
                }
                match bus.send_when_room(lead, Draft::text(echo, "more")).await {
                    Ok(receipt) => receipts.push((lead, receipt)),
                    // It was the flush of a segment that was being made ready.
                    Err(error) if error.code() == Code::StoreUnusable => {}
                    Err(error) => break error,
                }
                tokio::task::yield_now().await;
            };
            assert_eq!(fault.code(), Code::NotDurable, "{when}: {fault}");
            assert!(bus.fault().is_some(), "{when}");
            for id in [lead, echo, worker] {
                look(&bus, id).await?;
            }
            let ledger = Ledger::read(&bus).await;
            ledger.check(&when);
            ledger.check_receipts(&receipts, &when);
            assert_eq!(bus.find(&house::label("lead")).await?, lead);
            let late = house::create(&bus, "late", "sink").await.unwrap_err();
            assert_eq!(late.code(), Code::NotDurable, "{when}");
            assert!(bus.shut_down().await.is_err(), "{when}");

            let disk = disk.crash_seeded(n);
            let bus = house::open_on(&disk, &config).await?;
            receipts.extend(house::send_all(&bus, (lead, echo), ["after"]).await?);
            house::drain(&bus).await?;
            let ledger = Ledger::read(&bus).await;
            ledger.check_done(&when);
            ledger.check_receipts(&receipts, &when);
            bus.shut_down().await
        })
        .unwrap();
    }
}

#[test]
fn m36_a_session_whose_writes_fail_again_and_again_has_not_failed() {
    house::run(async {
        let disk = SimDisk::new();
        let mut config = house::config(Durability::Sync);
        config.limits.resend_after = Duration::from_millis(1);
        let bus = house::open_on(&disk, &config).await?;
        let [lead, other] = house::circle(&bus, [("lead", "sink"), ("other", "echo")]).await?;
        let (mut n_falls, mut receipts) = (0, Vec::new());
        while n_falls < 8 {
            disk.fail_kind(CallKind::Write, disk.calls_of(CallKind::Write) + 1, DiskFault::Io);
            match bus.send(lead, Draft::text(other, "text")).await {
                Ok(receipt) => receipts.push((lead, receipt)),
                Err(_) => n_falls += 1,
            }
            look(&bus, lead).await?;
        }
        house::drain(&bus).await?;
        // Nor do they count once it falls by itself.
        house::fall(&bus, lead).await;
        house::drain(&bus).await?;
        assert_eq!(phase_of(&bus, lead).await?, Phase::Active);
        let ledger = Ledger::read(&bus).await;
        ledger.check_done("well again");
        ledger.check_receipts(&receipts, "well again");
        // A write that was to fail may be left for the saved heads.
        drop(bus.shut_down().await);
        Ok::<(), Error>(())
    })
    .unwrap();
}

async fn phase_of(bus: &Bus, id: SessionId) -> Result<Phase, Error> {
    let records = bus.list().await?;
    Ok(records.iter().find(|record| record.created.id == id).unwrap().phase)
}

#[test]
fn m60_f43_sessions_are_made_by_the_hundred_through_the_narrowest_journal() {
    house::run(async {
        let mut config = house::small(Durability::Sync);
        config.store.queue_max = 16;
        config.store.queue_bytes_max = 65_536;
        let bus = house::open_on(&SimDisk::new(), &config).await?;
        let making: Vec<_> = (0..300)
            .map(|n| {
                let bus = bus.clone();
                house::start(async move { house::create(&bus, &format!("s-{n}"), "sink").await })
            })
            .collect();
        for made in making {
            made.await.unwrap()?;
        }
        bus.shut_down().await
    })
    .unwrap();
}
