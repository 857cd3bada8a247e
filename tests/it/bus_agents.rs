//! Agents that fail: their sessions come back, their messages end, nobody else notices.

use std::sync::Arc;

use callboard::bus::Status;
use callboard::persist::SimDisk;
use callboard::protocol::session::event::DeadReason;
use callboard::protocol::{Draft, SessionId};
use callboard::{Durability, Error};

use crate::house;
use crate::ledger::{Fate, Ledger};

/// A worker is told to fail at one message in the middle of a thousand that wait for it.
async fn a_thousand_wait(order: &str, code: &str) -> Result<(), Error> {
    let mut config = house::config(Durability::Sync);
    config.limits.pending_max = 2_000;
    let (builder, gate) = house::builder(Arc::new(SimDisk::new()), config);
    let bus = builder.open().await?;
    let [lead, worker, other] =
        house::circle(&bus, [("lead", "sink"), ("worker", "obedient"), ("other", "obedient")])
            .await?;
    house::send_all(&bus, (lead, worker), ["hold"]).await?;
    house::send_all(&bus, (lead, worker), (0..499).map(|n| n.to_string())).await?;
    house::send_all(&bus, (lead, worker), [order]).await?;
    house::send_all(&bus, (lead, worker), (500..1_000).map(|n| n.to_string())).await?;
    house::send_all(&bus, (lead, other), (0..100).map(|n| n.to_string())).await?;
    gate.send_replace(true);
    bus.quiet().await?;

    let ledger = Ledger::read(&bus).await;
    ledger.check_done(order);
    let fates = ledger.fates(lead, worker);
    assert_eq!(fates.len(), 1_001);
    for (place, fate) in fates.iter().enumerate() {
        let due = if place == 500 { Fate::Dead(DeadReason::Attempts) } else { Fate::Handled };
        assert_eq!(*fate, due, "{order}: message {place}");
    }
    let failures = ledger.turns(worker).into_iter().flatten();
    assert_eq!(failures.collect::<Vec<_>>(), vec![code; 5]);
    assert_eq!(bus.inspect(lead).await?.counts.told_dead, 1);
    assert!(ledger.turns(other).iter().all(Option::is_none), "{order}: the other one noticed");
    assert_eq!(tell(&bus, lead, worker).await?, "1000", "{order}: not the state it had kept");
    bus.shut_down().await
}

/// How many messages an obedient session says that it has handled.
async fn tell(bus: &callboard::bus::Bus, from: SessionId, to: SessionId) -> Result<String, Error> {
    bus.send(from, Draft::text(to, "tell")).await?;
    bus.quiet().await?;
    let ledger = Ledger::read(bus).await;
    let told = ledger.texts(to, from).pop();
    Ok(told.unwrap_or_default())
}

#[test]
fn m99_f08_f24_an_agent_that_panics_over_one_message_handles_the_thousand_others_in_order() {
    house::run(a_thousand_wait("panic", "PANIC")).unwrap();
}

#[test]
fn m99_f24_an_agent_that_fails_over_one_message_handles_the_thousand_others_in_order() {
    house::run(a_thousand_wait("fail", "TOLD")).unwrap();
}

#[test]
fn m99_f24_an_agent_whose_state_grows_too_large_handles_the_thousand_others_in_order() {
    house::run(a_thousand_wait("bloat", "AGENT_STATE_TOO_LARGE")).unwrap();
}

#[test]
fn f16_m59_attempts_are_counted_through_restarts_until_the_message_is_dead() {
    house::run(async {
        let mut disk = SimDisk::new();
        let config = house::config(Durability::Sync);
        let bus = house::open_on(&disk, &config).await?;
        let [lead, worker] = house::circle(&bus, [("lead", "sink"), ("worker", "driver")]).await?;
        house::send_all(&bus, (lead, worker), ["poison", "fine"]).await?;
        let mut bus = Some(bus);
        for attempt in 1..=config.limits.attempts_max {
            let open = bus.take().unwrap();
            let mut driver = open.attach(worker).await?;
            let taken = driver.take().await?;
            assert_eq!(taken.attempt, attempt);
            assert_eq!(taken.messages[0].message.body.as_str(), "poison");
            disk = disk.kill();
            bus = Some(house::open_on(&disk, &config).await?);
        }
        let bus = bus.take().unwrap();
        let mut driver = bus.attach(worker).await?;
        assert_eq!(house::take_all(&mut driver, 1).await?, ["fine"]);
        bus.quiet().await?;
        let ledger = Ledger::read(&bus).await;
        ledger.check_done("after the last attempt");
        let fates = ledger.fates(lead, worker);
        assert_eq!(fates, [Fate::Dead(DeadReason::Attempts), Fate::Handled]);
        assert_eq!(bus.inspect(lead).await?.counts.told_dead, 1);
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m07_m99_f58_a_session_whose_agent_can_never_be_made_fails_once_and_keeps_its_label() {
    house::run(async {
        let disk = SimDisk::new();
        let config = house::config(Durability::Sync);
        let bus = house::open_on(&disk, &config).await?;
        let [lead, worker] = house::circle(&bus, [("lead", "sink"), ("worker", "sink")]).await?;
        let refused = house::create(&bus, "failed", "never").await.unwrap_err();
        assert_eq!(refused.code(), callboard::Code::InvalidArgument);
        let failed = bus.find(&house::label("failed")).await?;
        let mut bus = bus;
        for _ in 0..3 {
            assert_eq!(
                house::create(&bus, "failed", "sink").await.unwrap_err().code(),
                callboard::Code::NameTaken
            );
            let records = bus.list().await?;
            let record = records.iter().find(|record| record.created.id == failed).unwrap();
            assert_eq!(record.phase, callboard::protocol::supervisor::Phase::Failed);
            bus.send(lead, Draft::text(worker, "still at work")).await?;
            bus.quiet().await?;
            assert_ne!(bus.inspect(worker).await?.status, Status::Failed);
            bus.shut_down().await?;
            bus = house::open_on(&disk, &config).await?;
        }
        bus.shut_down().await
    })
    .unwrap();
}
