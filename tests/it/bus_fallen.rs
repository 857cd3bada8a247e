//! Sessions whose actors panic in the middle of something: what they held for others is not lost.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use callboard::bus::Bus;
use callboard::persist::SimDisk;
use callboard::protocol::{Draft, SessionId};
use callboard::{Config, Durability, Error};

use crate::house::{self, Trip};
use crate::ledger::Ledger;

/// So many rounds meet each order of two things that happen at once.
const ROUNDS: usize = 60;

/// Room for four messages, and sessions that may fall as often as it takes.
fn config() -> Config {
    let mut config = house::config(Durability::Sync);
    config.limits.pending_max = 4;
    config.limits.attempts_max = 100;
    config.life.respawn_max = 1_000;
    config
}

/// All room is there, and no more than that.
async fn check_room(
    bus: &Bus,
    (from, to): (SessionId, SessionId),
    round: usize,
) -> Result<(), Error> {
    let mut driver = loop {
        match bus.attach(to).await {
            Ok(driver) => break driver,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    tokio::select! {
        quiet = bus.quiet() => quiet?,
        taken = house::take_all(&mut driver, usize::MAX) => drop(taken?),
    }
    for n in 0..4 {
        let sent = bus.send(from, Draft::text(to, "room")).await;
        assert!(sent.is_ok(), "round {round}, message {n}: {sent:?}");
    }
    assert!(bus.send(from, Draft::text(to, "no room")).await.is_err(), "round {round}");
    house::take_all(&mut driver, 4).await?;
    bus.quiet().await
}

#[test]
fn m99_m33_room_that_a_turn_gives_back_is_not_lost_where_its_session_falls_just_then() {
    house::run(async {
        let bus = house::open(Arc::new(SimDisk::new()), config()).await?;
        let [lead, full] = house::circle(&bus, [("lead", "sink"), ("full", "driver")]).await?;
        for round in 0..ROUNDS {
            house::send_all(&bus, (lead, full), ["1", "2", "3", "4"]).await?;
            while bus.inspect(full).await?.pending < 4 {
                tokio::task::yield_now().await;
            }
            let mut driver = bus.attach(full).await?;
            {
                let trip = Arc::new(Trip::default());
                let waker = Waker::from(Arc::clone(&trip));
                let mut looking = pin!(tokio::task::unconstrained(bus.inspect(full)));
                let mut answered = house::begin(looking.as_mut()).is_some();
                // The supervisor has answered when it answers this.
                bus.list().await?;
                answered =
                    answered || looking.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
                let mut taking = pin!(driver.take());
                house::begin(taking.as_mut());
                if !answered {
                    trip.sprung().await;
                }
            }
            drop(driver);
            check_room(&bus, (lead, full), round).await?;
        }
        Ledger::read(&bus).await.check_done("drained");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m99_m33_room_that_is_granted_to_a_session_is_not_lost_where_it_falls_just_then() {
    house::run(async {
        let bus = house::open(Arc::new(SimDisk::new()), config()).await?;
        let [lead, full] = house::circle(&bus, [("lead", "driver"), ("full", "driver")]).await?;
        for round in 0..ROUNDS {
            let mut driver = bus.attach(full).await?;
            house::send_all(&bus, (lead, full), ["1", "2", "3", "4"]).await?;
            let waiting = {
                let bus = bus.clone();
                house::start(async move { bus.send_when_room(lead, Draft::text(full, "5")).await })
            };
            // Once this is answered, the one before it stands in the queue.
            assert!(bus.send(lead, Draft::text(full, "too much")).await.is_err());
            let taking = house::start(async move { driver.take().await.map(|_| driver) });
            for _ in 0..round % 12 {
                std::thread::yield_now();
            }
            house::fall(&bus, lead).await;
            drop(taking.await.unwrap()?);
            drop(waiting.await.unwrap());
            check_room(&bus, (lead, full), round).await?;
        }
        Ledger::read(&bus).await.check_done("drained");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m99_a_caller_that_panics_over_its_receipt_takes_nobody_elses() {
    house::run(async {
        let mut config = config();
        config.life.arbiters = 1;
        config.life.respawn_max = 0;
        let bus = house::open(Arc::new(SimDisk::new()), config).await?;
        let [lead, sink] = house::circle(&bus, [("lead", "sink"), ("sink", "sink")]).await?;
        house::send_all(&bus, (lead, sink), ["known"]).await?;
        let trip = Arc::new(Trip::default());
        let waker = Waker::from(Arc::clone(&trip));
        {
            let mut sending =
                pin!(tokio::task::unconstrained(bus.send(lead, Draft::text(sink, "trip"))));
            assert!(sending.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            trip.sprung().await;
        }
        house::send_all(&bus, (lead, sink), ["after"]).await?;
        bus.quiet().await?;
        let ledger = Ledger::read(&bus).await;
        ledger.check_done("handled");
        assert_eq!(ledger.texts(lead, sink), ["known", "trip", "after"]);
        bus.shut_down().await
    })
    .unwrap();
}
