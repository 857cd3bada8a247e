//! Turns that are given back: the driver let go, or the bus stopped in order. Nothing has failed.

use std::sync::Arc;

use callboard::Durability;
use callboard::bus::Page;
use callboard::persist::SimDisk;
use callboard::protocol::Draft;
use callboard::protocol::session::{Event, TurnOutcome};

use crate::house;
use crate::ledger::Ledger;

/// More than a message may be tried.
const OFTEN: u32 = 8;

#[test]
fn m59_a_driver_that_lets_go_again_and_again_loses_no_mail() {
    house::run(async {
        let bus = house::open_on(&SimDisk::new(), &house::config(Durability::Sync)).await?;
        let [lead, worker] = house::circle(&bus, [("lead", "sink"), ("worker", "driver")]).await?;
        house::send_all(&bus, (lead, worker), ["one", "two"]).await?;
        for attempt in 1..=OFTEN {
            let taken = bus.attach(worker).await?.take().await?;
            assert_eq!(taken.attempt, attempt);
            assert_eq!(taken.messages[0].attempts, attempt, "it was offered so often");
        }
        let mut driver = bus.attach(worker).await?;
        assert_eq!(house::take_all(&mut driver, 2).await?, ["one", "two"]);
        bus.quiet().await?;
        assert_eq!(bus.inspect(worker).await?.counts.dead, 0);
        assert_eq!(bus.inspect(lead).await?.counts.told_dead, 0);
        Ledger::read(&bus).await.check_done("all is acknowledged");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m59_what_an_orderly_stop_breaks_off_is_not_an_attempt() {
    house::run(async {
        let disk = SimDisk::new();
        let mut config = house::config(Durability::Sync);
        config.life.stop_max = std::time::Duration::from_millis(5);
        let builder = || house::builder(Arc::new(disk.clone()), config.clone());
        let (opening, closed_gate) = builder();
        let bus = opening.open().await?;
        let [lead, worker, person] =
            house::circle(&bus, [("lead", "sink"), ("worker", "obedient"), ("person", "driver")])
                .await?;
        bus.send(lead, Draft::text(worker, "hold")).await?;
        bus.send(lead, Draft::text(person, "read me")).await?;
        bus.shut_down().await?;
        drop(closed_gate);
        for _ in 0..OFTEN {
            let (opening, closed_gate) = builder();
            let bus = opening.open().await?;
            let mut driver = bus.attach(person).await?;
            let taken = driver.take().await?;
            while bus.inspect(worker).await?.taken == 0 {
                tokio::task::yield_now().await;
            }
            bus.shut_down().await?;
            drop((taken, driver, closed_gate));
        }
        let (opening, gate) = builder();
        let bus = opening.open().await?;
        gate.send_replace(true);
        let mut driver = bus.attach(person).await?;
        assert_eq!(house::take_all(&mut driver, 1).await?, ["read me"]);
        bus.quiet().await?;
        for id in [worker, person] {
            let counts = bus.inspect(id).await?.counts;
            assert_eq!((counts.handled, counts.dead), (1, 0));
        }
        Ledger::read(&bus).await.check_done("all is handled");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m59_f43_a_stop_without_room_for_what_a_turn_staged_gives_the_turn_back() {
    house::run(async {
        let disk = SimDisk::new();
        let mut config = house::small(Durability::Sync);
        config.life.stop_max = std::time::Duration::from_millis(5);
        config.limits.pending_max = 10_000;
        let (opening, gate) = house::builder(Arc::new(disk.clone()), config.clone());
        let bus = opening.open().await?;
        let [lead, worker, other] =
            house::circle(&bus, [("lead", "sink"), ("worker", "obedient"), ("other", "driver")])
                .await?;
        house::send_all(&bus, (lead, worker), ["hold", "tell"]).await?;
        while bus.inspect(worker).await?.taken == 0 {
            tokio::task::yield_now().await;
        }
        disk.set_capacity(Some(disk.used_bytes()));
        while bus.send(lead, Draft::text(other, "x".repeat(400))).await.is_ok() {}
        // The turn ends, and there is no room for what it has staged.
        gate.send_replace(true);
        for _ in 0..100 {
            bus.list().await?;
        }
        // There is no room for the heads either.
        drop(bus.shut_down().await);
        disk.set_capacity(None);
        let bus = house::open_on(&disk, &config).await?;
        let events = bus.history(worker, Page { before: None, limit: 100 }).await?.entries;
        let outcomes: Vec<_> = events
            .iter()
            .flat_map(|entry| &entry.events)
            .filter_map(|event| match event {
                Event::TurnEnded { outcome, .. } => Some(outcome.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(outcomes.last(), Some(&TurnOutcome::GivenBack), "{outcomes:?}");
        bus.shut_down().await
    })
    .unwrap();
}
