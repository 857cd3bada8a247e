//! Orderly stops, dropped handles, other runtimes, other buses.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard::bus::{Bus, Page, Receipt};
use callboard::persist::SimDisk;
use callboard::protocol::supervisor::Phase;
use callboard::protocol::{Draft, SessionId};
use callboard::{Code, Durability, Error};

use crate::chance::Chance;
use crate::house;
use crate::ledger::Ledger;

/// A hundred sends are on their way, some of them waiting for room, when the bus is told to stop.
async fn stop_with_a_hundred_in_flight(seed: u64) -> Result<(), Error> {
    let mut chance = Chance(seed);
    let disk = SimDisk::new();
    let mut config = house::config(Durability::Sync);
    config.limits.pending_max = 16;
    // Nothing here is overdue, however slow the machine.
    config.life.stop_max = std::time::Duration::from_secs(30);
    let bus = house::open_on(&disk, &config).await?;
    let [one, two, sink, full] = house::circle(
        &bus,
        [("one", "sink"), ("two", "sink"), ("sink", "sink"), ("full", "driver")],
    )
    .await?;
    let mut sends = Vec::new();
    for n in 0..100 {
        let (from, to) = ([one, two][n % 2], [sink, full][chance.below(2)]);
        let bus = bus.clone();
        sends.push(tokio::spawn(async move {
            (from, bus.send_when_room(from, Draft::text(to, n.to_string())).await)
        }));
    }
    for _ in 0..chance.below(60) {
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
    bus.shut_down().await?;
    let mut receipts: Vec<(SessionId, Receipt)> = Vec::new();
    for send in sends {
        match send.await.unwrap() {
            (from, Ok(receipt)) => receipts.push((from, receipt)),
            (_, Err(error)) => assert_eq!(error.code(), Code::Closed, "seed {seed}: {error}"),
        }
    }
    let bus = house::open_on(&disk, &config).await?;
    let ledger = Ledger::read(&bus).await;
    ledger.check_receipts(&receipts, &format!("seed {seed}"));
    // Closed means that nothing happened.
    let n_queued: usize = ledger.queued().values().map(Vec::len).sum();
    assert_eq!(n_queued, receipts.len(), "seed {seed}");
    let mut driver = bus.attach(full).await?;
    let n_full = receipts.iter().filter(|(_, receipt)| receipt.target == full).count();
    house::take_all(&mut driver, n_full).await?;
    bus.quiet().await?;
    Ledger::read(&bus).await.check_done(&format!("seed {seed}"));
    bus.shut_down().await
}

#[test]
fn m13_f10_a_stop_with_a_hundred_sends_in_flight_ends_every_future_and_keeps_every_receipt() {
    for seed in 0..20 {
        house::run(stop_with_a_hundred_in_flight(seed)).unwrap();
    }
}

#[test]
fn f10_whoever_stops_the_bus_a_second_time_waits_for_the_same_end() {
    house::run(async {
        let disk = SimDisk::new();
        let mut config = house::config(Durability::Sync);
        config.life.stop_max = std::time::Duration::from_secs(30);
        let (builder, gate) = house::builder(Arc::new(disk.clone()), config.clone());
        let bus = builder.open().await?;
        let [lead, worker] =
            house::circle(&bus, [("lead", "sink"), ("worker", "obedient")]).await?;
        bus.send(lead, Draft::text(worker, "hold")).await?;
        while bus.inspect(worker).await?.taken == 0 {
            tokio::task::yield_now().await;
        }
        let mut first = Box::pin(bus.shut_down());
        let mut second = Box::pin(bus.shut_down());
        assert!(house::begin(first.as_mut()).is_none());
        assert!(house::begin(second.as_mut()).is_none());
        // The turn may end, though the stop was asked for twice, once by somebody who gave up.
        drop(first);
        gate.send_replace(true);
        second.await?;
        bus.shut_down().await?;
        let bus = house::open_on(&disk, &config).await?;
        assert_eq!(Ledger::read(&bus).await.turns(worker), [None]);
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn f10_a_stop_that_is_given_up_goes_on_and_gives_the_directory_back() {
    house::run(async {
        let disk = SimDisk::new();
        let config = house::config(Durability::Sync);
        for round in 0..20 {
            let bus = house::open_when_free(&disk, &config).await;
            let one = house::create(&bus, &format!("one-{round}"), "sink").await?;
            let mut stop = Box::pin(bus.shut_down());
            // It may have come to its end before it was looked at for the first time.
            if let Some(stopped) = house::begin(stop.as_mut()) {
                stopped?;
            }
            drop(stop);
            assert_eq!(bus.inspect(one).await.unwrap_err().code(), Code::Closed);
        }
        house::open_when_free(&disk, &config).await.shut_down().await
    })
    .unwrap();
}

#[test]
fn f10_the_last_handle_dropped_stops_the_bus_and_keeps_what_was_receipted() {
    house::run(async {
        let disk = SimDisk::new();
        let config = house::config(Durability::Sync);
        let bus = house::open_on(&disk, &config).await?;
        let [one, two] = house::circle(&bus, [("one", "sink"), ("two", "driver")]).await?;
        let receipts = house::send_all(&bus, (one, two), ["1", "2", "3"]).await?;
        let other = bus.clone();
        drop(bus);
        assert_eq!(other.inspect(one).await?.counts.queued, 3);
        drop(other);
        let bus = house::open_when_free(&disk, &config).await;
        assert_eq!(bus.recovery().store.cut_bytes, 0);
        let ledger = Ledger::read(&bus).await;
        ledger.check_receipts(&receipts, "after the drop");
        let mut driver = bus.attach(two).await?;
        assert_eq!(house::take_all(&mut driver, 3).await?, ["1", "2", "3"]);
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn f10_every_call_after_the_stop_says_closed() {
    house::run(async {
        let bus = house::open_on(&SimDisk::new(), &house::config(Durability::Sync)).await?;
        let [one, two] = house::circle(&bus, [("one", "sink"), ("two", "driver")]).await?;
        let mut driver = bus.attach(two).await?;
        bus.shut_down().await?;
        let page = Page { before: None, limit: 1 };
        let answers = [
            bus.send(one, Draft::text(two, "late")).await.map(drop),
            bus.send_when_room(one, Draft::text(two, "late")).await.map(drop),
            driver.send(Draft::text(one, "late")).await.map(drop),
            driver.take().await.map(drop),
            house::create(&bus, "late", "sink").await.map(drop),
            bus.connect(one, two).await,
            bus.group(&house::label("late"), &[one, two]).await,
            bus.close(one).await,
            bus.inspect(one).await.map(drop),
            bus.history(one, page).await.map(drop),
            bus.attach(two).await.map(drop),
            bus.find(&house::label("one")).await.map(drop),
            bus.list().await.map(drop),
            bus.quiet().await,
        ];
        for (place, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.unwrap_err().code(), Code::Closed, "call {place}");
        }
        bus.shut_down().await
    })
    .unwrap();
}

async fn talk(bus: &Bus, prefix: &str, count: u64) -> Result<(), Error> {
    let (one, two) = (format!("{prefix}-one"), format!("{prefix}-two"));
    let one = house::create(bus, &one, "sink").await?;
    let two = house::create(bus, &two, "echo").await?;
    bus.connect(one, two).await?;
    house::send_all(bus, (one, two), (0..count).map(|n| n.to_string())).await?;
    bus.quiet().await?;
    assert_eq!(bus.inspect(one).await?.counts.handled, count);
    Ok(())
}

/// The bus that holds the directory prepares segments meanwhile; the loser changes nothing.
fn assert_grown_by_zeros(before: &BTreeMap<String, Vec<u8>>, after: &BTreeMap<String, Vec<u8>>) {
    // A prepared segment gets its name when it is whole.
    let mut kept = before.keys().filter(|path| !path.ends_with(".tmp"));
    assert!(kept.all(|path| after.contains_key(path)), "the loser removed something");
    for (path, bytes) in after {
        let known = before.get(path).map_or(&[][..], Vec::as_slice);
        let grown = bytes.strip_prefix(known);
        let zeros = grown.is_some_and(|grown| grown.iter().all(|byte| *byte == 0));
        assert!(zeros, "the loser changed {path}");
    }
}

#[test]
fn m58_f34_two_buses_live_in_one_process_and_one_directory_has_one_bus() {
    house::run(async {
        let (first_disk, second_disk) = (SimDisk::new(), SimDisk::new());
        let config = house::config(Durability::Sync);
        let first = house::open_on(&first_disk, &config).await?;
        let second = house::open_on(&second_disk, &config).await?;
        let before = first_disk.files();
        let locked = house::open_on(&first_disk, &config).await.map(drop).unwrap_err();
        assert_eq!(locked.code(), Code::StoreLocked);
        assert_grown_by_zeros(&before, &first_disk.files());
        let (one, two) = tokio::join!(talk(&first, "a", 30), talk(&second, "a", 30));
        one?;
        two?;
        first.shut_down().await?;
        talk(&second, "b", 10).await?;
        house::open_on(&first_disk, &config).await?.shut_down().await?;
        second.shut_down().await
    })
    .unwrap();
}

#[test]
fn a_bus_is_used_from_threads_and_runtimes_of_every_kind() {
    let many = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap();
    let bus =
        many.block_on(house::open_on(&SimDisk::new(), &house::config(Durability::Sync))).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let bus = &bus;
            scope.spawn(move || house::run(talk(bus, &format!("t{thread}"), 40)).unwrap());
        }
        let tasks: Vec<_> = (0..3)
            .map(|task| {
                let bus = bus.clone();
                many.spawn(async move { talk(&bus, &format!("m{task}"), 40).await })
            })
            .collect();
        for task in tasks {
            many.block_on(task).unwrap().unwrap();
        }
    });
    // No runtime at all is needed to wait for an answer.
    house::run(async { Ledger::read(&bus).await.check_done("all threads are done") });
    many.block_on(bus.shut_down()).unwrap();
}

/// Sessions are being made when the bus is told to stop.
async fn stop_while_sessions_are_made(seed: u64) -> Result<(), Error> {
    let mut chance = Chance(seed);
    let disk = SimDisk::new();
    let mut config = house::config(Durability::Sync);
    config.life.stop_max = std::time::Duration::from_secs(30);
    let bus = house::open_on(&disk, &config).await?;
    let making: Vec<_> = (0..100)
        .map(|n| {
            let bus = bus.clone();
            tokio::spawn(async move { house::create(&bus, &format!("one-{n}"), "sink").await })
        })
        .collect();
    for _ in 0..chance.below(60) {
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
    bus.shut_down().await?;
    let mut made = Vec::new();
    for made_or_not in making {
        match made_or_not.await.unwrap() {
            Ok(id) => made.push(id),
            Err(error) => assert_eq!(error.code(), Code::Closed, "seed {seed}: {error}"),
        }
    }
    let bus = house::open_on(&disk, &config).await?;
    let records = bus.list().await?;
    for record in &records {
        assert_eq!(record.phase, Phase::Active, "seed {seed}: {record:?}");
    }
    let known = |id: &SessionId| records.iter().any(|record| record.created.id == *id);
    assert!(made.iter().all(known), "seed {seed}: a session is gone");
    assert_eq!(records.len(), made.len(), "seed {seed}: closed means that nothing happened");
    bus.shut_down().await
}

#[test]
fn m04_f10_a_stop_while_sessions_are_made_leaves_none_half_made() {
    for seed in 0..40 {
        house::run(stop_while_sessions_are_made(seed)).unwrap();
    }
}
