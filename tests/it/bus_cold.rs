//! Sessions that come and go: unloaded when idle, loaded by mail, cleaned from the log, read back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use callboard::Durability;
use callboard::bus::{Inspection, Page, Status};
use callboard::config::History;
use callboard::persist::SimDisk;
use callboard::protocol::Draft;

use crate::ledger::{self, Ledger};
use crate::{cast, house};

#[test]
fn m24_m35_mail_to_a_cold_session_loads_it_and_nothing_is_lost_on_the_way_out() {
    house::run(async {
        let mut config = house::config(Durability::Sync);
        config.life.idle_unload = Duration::ZERO;
        let n_made = Arc::new(AtomicUsize::new(0));
        let (builder, _) = house::builder(Arc::new(SimDisk::new()), config);
        let bus = builder.agent("counted", cast::counted(&n_made)).open().await?;
        let [lead, cold, worker] = house::circle(
            &bus,
            [("lead", "obedient"), ("cold", "counted"), ("worker", "obedient")],
        )
        .await?;
        for round in 0..60 {
            house::send_all(&bus, (lead, cold), [round.to_string()]).await?;
            house::send_all(&bus, (lead, worker), [round.to_string()]).await?;
            if round % 3 == 0 {
                bus.quiet().await?;
            }
        }
        bus.quiet().await?;
        house::send_all(&bus, (lead, worker), ["tell"]).await?;
        bus.quiet().await?;
        let ledger = Ledger::read(&bus).await;
        ledger.check_done("all is quiet");
        assert_eq!(ledger.texts(worker, lead), ["60"]);
        let n_made = n_made.load(Ordering::Relaxed);
        assert!(n_made > 10, "loaded {n_made} times: it did not leave");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m55_m61_snapshot_and_replay_are_the_live_state_after_every_restart() {
    house::run(async {
        let mut disk = SimDisk::new();
        let config = house::small(Durability::Sync);
        let mut bus = house::open_on(&disk, &config).await?;
        let [lead, worker, echo] =
            house::circle(&bus, [("lead", "obedient"), ("worker", "obedient"), ("echo", "echo")])
                .await?;
        for round in 1..=12 {
            house::send_all(&bus, (lead, worker), ["a", "b", "fail"]).await?;
            house::send_all(&bus, (lead, echo), ["c", "d"]).await?;
            bus.quiet().await?;
            let mut before = Vec::new();
            for id in [lead, worker, echo] {
                before.push(bus.inspect(id).await?);
            }
            disk = if round % 2 == 0 { disk.kill() } else { disk.crash_seeded(round) };
            bus = house::open_on(&disk, &config).await?;
            for (id, before) in [lead, worker, echo].into_iter().zip(before) {
                let before = Inspection { status: Status::Inactive, ..before };
                assert_eq!(bus.inspect(id).await?, before, "round {round}");
            }
            house::send_all(&bus, (lead, worker), ["tell"]).await?;
            bus.quiet().await?;
            let told = Ledger::read(&bus).await.texts(worker, lead).pop();
            // Two each round, and every `tell` before.
            assert_eq!(told, Some((3 * round - 1).to_string()), "round {round}");
        }
        Ledger::read(&bus).await.check_done("after the last round");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m61_f22_f23_a_log_that_is_cleaned_while_the_bus_runs_loses_nothing_that_is_needed() {
    house::run(async {
        let disk = SimDisk::new();
        let mut config = house::small(Durability::Sync);
        config.store.history = History::Drop;
        let bus = house::open_on(&disk, &config).await?;
        let [lead, echo, still, worker] = house::circle(
            &bus,
            [("lead", "obedient"), ("echo", "echo"), ("still", "sink"), ("worker", "driver")],
        )
        .await?;
        house::send_all(&bus, (lead, still), ["long ago"]).await?;
        house::send_all(&bus, (lead, worker), ["waits all the time"]).await?;
        let mut most = 0;
        for _ in 0..40 {
            house::send_all(&bus, (lead, echo), (0..20).map(|n| format!("{n:0200}"))).await?;
            most = most.max(disk.used_bytes());
        }
        let written = 40 * 20 * 2 * 2 * 500;
        assert!(most < written / 2, "{most} bytes of log after {written} bytes of frames");
        let mut driver = bus.attach(worker).await?;
        assert_eq!(house::take_all(&mut driver, 1).await?, ["waits all the time"]);
        drop(driver);
        bus.quiet().await?;
        let mut before = Vec::new();
        for id in [lead, echo, still, worker] {
            before.push(bus.inspect(id).await?);
        }
        assert_eq!(before[1].counts.handled, 800);
        let disk = disk.kill();
        let bus = house::open_on(&disk, &config).await?;
        for (id, before) in [lead, echo, still, worker].into_iter().zip(before) {
            let before = Inspection { status: Status::Inactive, ..before };
            assert_eq!(bus.inspect(id).await?, before);
        }
        let receipt = bus.send(lead, Draft::text(still, "and now")).await?;
        assert_eq!(receipt.n, 2, "a number was given again");
        bus.quiet().await?;
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m51_a_history_is_the_same_on_pages_of_every_size() {
    house::run(async {
        let disk = SimDisk::new();
        let config = house::small(Durability::Sync);
        let bus = house::open_on(&disk, &config).await?;
        let [lead, echo] = house::circle(&bus, [("lead", "sink"), ("echo", "echo")]).await?;
        for _ in 0..60 {
            house::send_all(&bus, (lead, echo), ["text"]).await?;
        }
        bus.quiet().await?;
        let whole = ledger::history(&bus, echo).await.unwrap();
        for limit in [1, 2, 3, 1_000] {
            let (mut pages, mut before) = (Vec::new(), None);
            loop {
                let page = bus.history(echo, Page { before, limit }).await?;
                assert!(page.entries.len() <= limit);
                let falling = page.entries.windows(2).all(|two| two[0].position > two[1].position);
                assert!(falling, "newest first");
                pages.extend(page.entries.into_iter().map(|entry| entry.events));
                before = page.next;
                if before.is_none() {
                    break;
                }
            }
            let events: Vec<_> = pages.into_iter().rev().flatten().collect();
            assert!(events == whole, "pages of {limit}");
        }
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m99_a_fall_loads_none_of_the_senders_that_have_nothing_on_their_way() {
    house::run(async {
        let mut config = house::config(Durability::Sync);
        config.life.idle_unload = Duration::ZERO;
        config.limits.pending_max = 100;
        let n_made = Arc::new(AtomicUsize::new(0));
        let (builder, _) = house::builder(Arc::new(SimDisk::new()), config);
        let bus = builder.agent("counted", cast::counted(&n_made)).open().await?;
        let hub = house::create(&bus, "hub", "driver").await?;
        let mut senders = Vec::new();
        for n in 0..100 {
            senders.push(house::create(&bus, &format!("sender-{n}"), "counted").await?);
        }
        bus.group(&house::label("circle"), &[vec![hub], senders.clone()].concat()).await?;
        for sender in &senders {
            house::send_all(&bus, (*sender, hub), ["mail"]).await?;
        }
        let mut driver = bus.attach(hub).await?;
        house::take_all(&mut driver, 100).await?;
        bus.quiet().await?;
        for sender in &senders {
            while bus.inspect(*sender).await?.status != Status::Inactive {
                tokio::task::yield_now().await;
            }
        }
        let before = n_made.load(Ordering::Relaxed);
        for _ in 0..3 {
            house::fall(&bus, hub).await;
            // This waits for the load after the fall, and for all that it calls.
            drop(bus.attach(hub).await?);
            bus.quiet().await?;
        }
        assert_eq!(n_made.load(Ordering::Relaxed), before);
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m99_f08_whoever_waits_for_a_session_that_falls_is_told_and_sends_again() {
    house::run(async {
        let mut config = house::config(Durability::Sync);
        config.life.idle_unload = Duration::ZERO;
        config.life.respawn_max = 1_000;
        // Who is not told would wait longer than this test may take.
        config.limits.resend_after = Duration::from_secs(300);
        let bus = house::open(Arc::new(SimDisk::new()), config).await?;
        let [hub, one, two, three] = house::circle(
            &bus,
            [("hub", "echo"), ("one", "sink"), ("two", "sink"), ("three", "sink")],
        )
        .await?;
        for from in [one, two, three] {
            house::send_all(&bus, (from, hub), ["known"]).await?;
        }
        bus.quiet().await?;
        let sending = [one, two, three].map(|from| {
            let bus = bus.clone();
            house::start(async move {
                house::send_all(&bus, (from, hub), (0..60).map(|n| n.to_string())).await
            })
        });
        for _ in 0..12 {
            house::fall(&bus, hub).await;
        }
        for sent in sending {
            sent.await.unwrap()?;
        }
        bus.quiet().await?;
        Ledger::read(&bus).await.check_done("after the falls");
        bus.shut_down().await
    })
    .unwrap();
}
