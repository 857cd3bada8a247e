//! Full targets: who is refused, who waits, who goes on; and what a flood does to its neighbours.

use std::pin::pin;
use std::sync::Arc;

use callboard::bus::{Bus, Receipt};
use callboard::persist::SimDisk;
use callboard::protocol::{Draft, SessionId};
use callboard::{Code, Config, Durability, Error};
use tokio::task::JoinHandle;

use crate::house;
use crate::ledger::Ledger;

fn of_four() -> Config {
    let mut config = house::config(Durability::Sync);
    config.limits.pending_max = 4;
    config
}

/// Begins to send, in the order of the calls.
fn begin(bus: &Bus, from: SessionId, draft: Draft) -> JoinHandle<Result<Receipt, Error>> {
    let bus = bus.clone();
    house::start(async move { bus.send_when_room(from, draft).await })
}

#[test]
fn m33_f11_a_full_target_refuses_with_its_limit_and_leaves_no_trace_and_others_go_on() {
    house::run(async {
        let bus = house::open(Arc::new(SimDisk::new()), of_four()).await?;
        let [lead, full, free] =
            house::circle(&bus, [("lead", "sink"), ("full", "driver"), ("free", "sink")]).await?;
        house::send_all(&bus, (lead, full), ["1", "2", "3", "4"]).await?;
        for _ in 0..10 {
            let answer = bus.send(lead, Draft::text(full, "5")).await;
            let Err(Error::Refused(refused)) = answer else { panic!("{answer:?}") };
            assert_eq!(refused.code, Code::MailboxFull);
            assert_eq!((refused.limit, refused.current), (Some(4), Some(5)));
            house::send_all(&bus, (lead, free), ["go on"]).await?;
        }
        let ledger = Ledger::read(&bus).await;
        assert_eq!(ledger.fates(lead, full).len(), 4);
        assert_eq!(ledger.fates(lead, free).len(), 10);

        let mut driver = bus.attach(full).await?;
        assert_eq!(house::take_all(&mut driver, 4).await?, ["1", "2", "3", "4"]);
        house::send_all(&bus, (lead, full), ["5"]).await?;
        assert_eq!(house::take_all(&mut driver, 1).await?, ["5"]);
        bus.quiet().await?;
        Ledger::read(&bus).await.check_done("drained");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m33_m29_m98_sends_that_wait_for_room_go_in_their_order_and_hold_up_nobody() {
    house::run(async {
        let bus = house::open(Arc::new(SimDisk::new()), of_four()).await?;
        let [one, two, full, free] = house::circle(
            &bus,
            [("one", "sink"), ("two", "sink"), ("full", "driver"), ("free", "sink")],
        )
        .await?;
        // Those who have spoken before need not be looked up.
        house::send_all(&bus, (one, free), ["first"]).await?;
        house::send_all(&bus, (two, free), ["first"]).await?;
        let texts: Vec<String> = (0..40).map(|n| n.to_string()).collect();
        let waiting: Vec<_> = texts
            .iter()
            .flat_map(|text| [one, two].map(|from| begin(&bus, from, Draft::text(full, text))))
            .collect();
        house::send_all(&bus, (one, free), ["goes on"]).await?;
        let mut driver = bus.attach(full).await?;
        house::take_all(&mut driver, 80).await?;
        for send in waiting {
            send.await.unwrap()?;
        }
        bus.quiet().await?;
        let ledger = Ledger::read(&bus).await;
        ledger.check_done("drained");
        assert_eq!([ledger.texts(one, full), ledger.texts(two, full)], [texts.clone(), texts]);
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m33_a_send_that_waits_for_room_and_is_given_up_is_not_sent_and_keeps_no_room() {
    house::run(async {
        let bus = house::open(Arc::new(SimDisk::new()), of_four()).await?;
        let [lead, full] = house::circle(&bus, [("lead", "sink"), ("full", "driver")]).await?;
        let mut driver = bus.attach(full).await?;
        for round in 0..20 {
            house::send_all(&bus, (lead, full), ["1", "2", "3", "4"]).await?;
            {
                let mut given_up = pin!(bus.send_when_room(lead, Draft::text(full, "given up")));
                assert!(house::begin(given_up.as_mut()).is_none());
                // Once this is answered, the one before it stands in the queue.
                let refused = bus.send(lead, Draft::text(full, "too much")).await.unwrap_err();
                assert_eq!(refused.code(), Code::MailboxFull, "round {round}");
            }
            assert_eq!(house::take_all(&mut driver, 4).await?, ["1", "2", "3", "4"]);
        }
        bus.quiet().await?;
        Ledger::read(&bus).await.check_done("drained");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m33_counts_are_rebuilt_whatever_had_become_of_the_mail() {
    house::run(async {
        for kill in [false, true] {
            let disk = SimDisk::new();
            let bus = house::open_on(&disk, &of_four()).await?;
            let [lead, full] = house::circle(&bus, [("lead", "sink"), ("full", "driver")]).await?;
            house::send_all(&bus, (lead, full), ["1", "2"]).await?;
            let mut driver = bus.attach(full).await?;
            // Taken mail does not count; offered again, it does not either.
            let taken = driver.take().await?;
            let n_taken = taken.messages.len();
            house::send_all(&bus, (lead, full), ["3", "4", "5", "6"].into_iter().skip(2 - n_taken))
                .await?;
            let full_now = bus.send(lead, Draft::text(full, "7")).await.unwrap_err();
            assert_eq!(full_now.code(), Code::MailboxFull);
            let disk = if kill {
                disk.kill()
            } else {
                drop(driver);
                bus.shut_down().await?;
                disk
            };
            let bus = house::open_on(&disk, &of_four()).await?;
            let answer = bus.send(lead, Draft::text(full, "7")).await;
            let Err(Error::Refused(refused)) = answer else { panic!("{answer:?}, kill {kill}") };
            assert_eq!((refused.limit, refused.current), (Some(4), Some(5)), "kill {kill}");
            let mut driver = bus.attach(full).await?;
            house::take_all(&mut driver, 4 + n_taken).await?;
            house::send_all(&bus, (lead, full), ["a", "b", "c", "d"]).await?;
            assert!(bus.send(lead, Draft::text(full, "e")).await.is_err(), "kill {kill}");
            house::take_all(&mut driver, 4).await?;
            bus.quiet().await?;
            Ledger::read(&bus).await.check_done(&format!("drained, kill {kill}"));
            bus.shut_down().await?;
        }
        Ok::<(), Error>(())
    })
    .unwrap();
}

#[test]
fn m98_f21_a_flood_delays_its_neighbours_by_a_few_rounds_however_long_it_is() {
    house::run(async {
        let mut config = house::config(Durability::Memory);
        config.life.arbiters = 1;
        config.life.drain_budget = 8;
        config.limits.pending_max = 1_000_000;
        let bus = house::open(Arc::new(SimDisk::new()), config).await?;
        let [flooder, flooded, calm, other] = house::circle(
            &bus,
            [("flooder", "sink"), ("flooded", "sink"), ("calm", "sink"), ("other", "sink")],
        )
        .await?;
        house::send_all(&bus, (flooder, flooded), ["first"]).await?;
        house::send_all(&bus, (calm, other), ["first"]).await?;
        let flood: Vec<_> =
            (0..20_000).map(|_| begin(&bus, flooder, Draft::text(flooded, "more"))).collect();
        for n in 0..20 {
            house::send_all(&bus, (calm, other), [n.to_string()]).await?;
        }
        let rounds = bus.progress().rounds_waited_max;
        assert!((1..=12).contains(&rounds), "a session waited {rounds} rounds");
        for send in flood {
            send.await.unwrap()?;
        }
        bus.quiet().await?;
        assert!(bus.progress().rounds_waited_max <= 12);
        bus.shut_down().await
    })
    .unwrap();
}
