//! Sessions driven from outside: take, acknowledge, drop, and what happens in between.

use std::pin::pin;
use std::sync::Arc;

use callboard::bus::Bus;
use callboard::persist::SimDisk;
use callboard::protocol::session::event::DeadReason;
use callboard::protocol::{Draft, SessionId};
use callboard::{Code, Durability, Error};

use crate::house;
use crate::ledger::{Fate, Ledger};

async fn lead_and_worker() -> Result<(Bus, SessionId, SessionId), Error> {
    let config = house::config(Durability::Sync);
    let bus = house::open(Arc::new(SimDisk::new()), config).await?;
    let [lead, worker] = house::circle(&bus, [("lead", "sink"), ("worker", "driver")]).await?;
    Ok((bus, lead, worker))
}

#[test]
fn m59_what_was_taken_and_not_acknowledged_is_offered_again_with_its_attempt() {
    house::run(async {
        let (bus, lead, worker) = lead_and_worker().await?;
        house::send_all(&bus, (lead, worker), ["one", "two"]).await?;
        for attempt in 1..=3 {
            let mut driver = bus.attach(worker).await?;
            let taken = driver.take().await?;
            assert_eq!(taken.attempt, attempt);
            assert_eq!(taken.messages[0].n, 1);
            assert_eq!(taken.messages[0].attempts, attempt);
        }
        let mut driver = bus.attach(worker).await?;
        assert_eq!(house::take_all(&mut driver, 2).await?, ["one", "two"]);
        bus.quiet().await?;
        Ledger::read(&bus).await.check_done("all is acknowledged");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m96_f17_a_second_driver_is_refused_until_the_first_is_dropped() {
    house::run(async {
        let (bus, _, worker) = lead_and_worker().await?;
        let driver = bus.attach(worker).await?;
        assert_eq!(refusal(bus.attach(worker).await), Code::StaleCaller);
        drop(driver);
        drop(bus.attach(worker).await?);
        bus.shut_down().await
    })
    .unwrap();
}

fn refusal<T>(answer: Result<T, Error>) -> Code {
    answer.map(drop).unwrap_err().code()
}

#[test]
fn f17_an_agent_cannot_be_driven_and_nobody_is_not_found() {
    house::run(async {
        let (bus, lead, _) = lead_and_worker().await?;
        assert_eq!(refusal(bus.attach(lead).await), Code::InvalidArgument);
        let nobody = SessionId::from_bytes([9; 16]);
        assert_eq!(refusal(bus.attach(nobody).await), Code::NotFound);
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn f29_a_take_that_is_given_up_loses_nothing() {
    house::run(async {
        let (bus, lead, worker) = lead_and_worker().await?;
        let mut driver = bus.attach(worker).await?;
        for n in 0..50 {
            // Given up before the mail comes, and while or after it does.
            assert!(house::begin(pin!(driver.take())).is_none());
            bus.send(lead, Draft::text(worker, n.to_string())).await?;
            let at_once = if n % 2 == 0 { house::begin(pin!(driver.take())) } else { None };
            let taken = match at_once {
                Some(taken) => taken?,
                None => driver.take().await?,
            };
            assert_eq!(taken.messages.len(), 1, "message {n}");
            assert_eq!(taken.messages[0].message.body.as_str(), n.to_string());
            driver.acknowledge(taken).await?;
        }
        bus.quiet().await?;
        Ledger::read(&bus).await.check_done("all is acknowledged");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn f29_a_driver_that_waits_when_its_session_is_closed_is_told() {
    house::run(async {
        let (bus, _, worker) = lead_and_worker().await?;
        let mut driver = bus.attach(worker).await?;
        let mut taking = pin!(driver.take());
        assert!(house::begin(taking.as_mut()).is_none());
        bus.close(worker).await?;
        assert_eq!(refusal(taking.await), Code::Closed);
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn f12_what_a_driver_hears_of_its_acknowledgement_is_what_the_journal_says() {
    house::run(async {
        let config = house::config(Durability::Sync);
        let bus = house::open(Arc::new(SimDisk::new()), config).await?;
        let lead = house::create(&bus, "lead", "sink").await?;
        for n in 0..200 {
            let worker = house::create(&bus, &format!("worker-{n}"), "driver").await?;
            bus.connect(lead, worker).await?;
            bus.send(lead, Draft::text(worker, "work")).await?;
            let mut driver = bus.attach(worker).await?;
            let taken = driver.take().await?;
            let closing = house::start({
                let bus = bus.clone();
                async move { bus.close(worker).await }
            });
            for _ in 0..n % 20 {
                std::thread::yield_now();
            }
            let acknowledged = driver.acknowledge(taken).await;
            closing.await.unwrap()?;
            let fate = Ledger::read_of(&bus, [lead, worker]).await.fates(lead, worker);
            match acknowledged {
                Ok(()) => assert_eq!(fate, [Fate::Handled], "round {n}"),
                Err(_) => assert_eq!(fate, [Fate::Dead(DeadReason::Closed)], "round {n}"),
            }
        }
        bus.shut_down().await
    })
    .unwrap();
}
