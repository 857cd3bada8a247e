//! Disks that fail under a running bus: full, broken, and well again.

use callboard::bus::{Bus, Receipt};
use callboard::persist::SimDisk;
use callboard::persist::sim_disk::{CallKind, DiskFault};
use callboard::protocol::session::event::DeadReason;
use callboard::protocol::supervisor::Phase;
use callboard::protocol::{Draft, SessionId};
use callboard::{Code, Durability, Error};

use crate::house;
use crate::ledger::{Fate, Ledger};

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

#[test]
fn f43_m53_a_full_disk_refuses_sends_keeps_what_is_there_and_goes_on_with_room() {
    house::run(async {
        let disk = SimDisk::new();
        let mut config = house::small(Durability::Sync);
        config.limits.pending_max = 10_000;
        let bus = house::open_on(&disk, &config).await?;
        let [lead, echo, worker] = house::circle(
            &bus,
            [("lead", "sink"), ("echo", "echo"), ("worker", "driver")],
        )
        .await?;
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
                bus.inspect(id).await?;
            }
            let ledger = Ledger::read(&bus).await;
            ledger.check(&format!("full, round {round}"));
            ledger.check_receipts(&receipts, &format!("full, round {round}"));
            let created = house::create(&bus, &format!("late-{round}"), "sink").await;
            assert!(created.is_err() || round < 3);

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
        for record in bus.list().await? {
            assert_ne!(record.phase, Phase::Provisioning, "{}", record.created.label);
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
            let [lead, echo, worker] = house::circle(
                &bus,
                [("lead", "sink"), ("echo", "echo"), ("worker", "driver")],
            )
            .await?;
            let mut receipts = house::send_all(&bus, (lead, worker), ["before"]).await?;
            disk.fail_kind(CallKind::Sync, disk.calls_of(CallKind::Sync) + n, DiskFault::Io);
            let when = format!("flush {n}");
            let fault = loop {
                match bus.send_when_room(lead, Draft::text(echo, "more")).await {
                    Ok(receipt) => receipts.push((lead, receipt)),
                    Err(error) => break error,
                }
            };
            assert_eq!(fault.code(), Code::NotDurable, "{when}: {fault}");
            assert!(bus.fault().is_some(), "{when}");
            for id in [lead, echo, worker] {
                bus.inspect(id).await?;
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
fn m99_m36_a_session_that_falls_too_often_has_failed_and_stays_so_and_can_be_closed() {
    house::run(async {
        let disk = SimDisk::new();
        let config = house::config(Durability::Sync);
        let (builder, gate) = house::builder(std::sync::Arc::new(disk.clone()), config.clone());
        let bus = builder.open().await?;
        let [lead, other, weak] = house::circle(
            &bus,
            [("lead", "sink"), ("other", "echo"), ("weak", "obedient")],
        )
        .await?;
        house::send_all(&bus, (lead, weak), ["hold", "kept"]).await?;
        while bus.inspect(weak).await?.counts.accepted < 2 {
            tokio::task::yield_now().await;
        }
        let mut n_falls = 0;
        while phase_of(&bus, weak).await? == Phase::Active {
            disk.fail_kind(CallKind::Write, disk.calls_of(CallKind::Write) + 1, DiskFault::Io);
            n_falls += usize::from(bus.send(weak, Draft::text(other, "fall")).await.is_err());
            assert!(n_falls < 50, "it falls for ever");
        }
        assert!(n_falls > 5, "failed after {n_falls} falls");
        gate.send_replace(true);
        bus.quiet().await?;
        let mut bus = bus;
        for round in 0..2 {
            // Nobody is there to talk to, nobody thinks in it; the others go on.
            let answer = bus.send(lead, Draft::text(weak, "hello")).await.unwrap_err();
            assert_eq!(answer.code(), Code::NotFound, "round {round}");
            house::send_all(&bus, (lead, other), ["go on"]).await?;
            bus.quiet().await?;
            let ledger = Ledger::read(&bus).await;
            ledger.check("failed");
            assert_eq!(ledger.fates(lead, weak), [Fate::Accepted; 2], "round {round}");
            assert_eq!(phase_of(&bus, weak).await?, Phase::Failed);
            bus.shut_down().await?;
            bus = house::open_on(&disk, &config).await?;
        }
        bus.close(weak).await?;
        bus.quiet().await?;
        let ledger = Ledger::read(&bus).await;
        ledger.check_done("closed");
        assert_eq!(ledger.fates(lead, weak), [Fate::Dead(DeadReason::Closed); 2]);
        bus.shut_down().await
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
