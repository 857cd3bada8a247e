//! Sessions that fail for good: what becomes of their mail, and what a crash in the middle leaves.

use std::sync::Arc;

use callboard::bus::{Bus, Observer};
use callboard::persist::SimDisk;
use callboard::persist::sim_disk::{CallKind, DiskFault};
use callboard::protocol::session::event::DeadReason;
use callboard::protocol::supervisor::Phase;
use callboard::protocol::{Draft, Message, SessionId};
use callboard::{Code, Config, Durability, Error};

use crate::house;
use crate::ledger::{Fate, Ledger};

/// Sessions fail after the third fall, and have room for a few frames of burials.
fn config() -> Config {
    let mut config = house::config(Durability::Sync);
    config.life.respawn_max = 2;
    config.limits.pending_max = 1_000;
    config
}

async fn phase_of(bus: &Bus, id: SessionId) -> Result<Phase, Error> {
    let records = bus.list().await?;
    Ok(records.iter().find(|record| record.created.id == id).unwrap().phase)
}

async fn fail(bus: &Bus, id: SessionId) -> Result<(), Error> {
    for n_falls in 0..3 {
        assert_eq!(phase_of(bus, id).await?, Phase::Active, "after {n_falls} falls");
        house::fall(bus, id).await;
    }
    while phase_of(bus, id).await? == Phase::Active {
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn until_accepted(bus: &Bus, id: SessionId, count: u64) -> Result<(), Error> {
    while bus.inspect(id).await?.counts.accepted < count {
        tokio::task::yield_now().await;
    }
    Ok(())
}

#[test]
fn m99_f06_f09_what_a_session_that_fell_too_often_had_accepted_is_dead_and_its_senders_are_told() {
    house::run(async {
        let disk = SimDisk::new();
        let bus = house::open_on(&disk, &config()).await?;
        let [one, two, weak] =
            house::circle(&bus, [("one", "sink"), ("two", "sink"), ("weak", "driver")]).await?;
        let mut driver = bus.attach(weak).await?;
        house::send_all(&bus, (one, weak), ["handled"]).await?;
        house::take_all(&mut driver, 1).await?;
        // More than is buried at once; some of it in the hands of the driver.
        house::send_all(&bus, (one, weak), (0..300).map(|n| n.to_string())).await?;
        house::send_all(&bus, (two, weak), ["a", "b", "c"]).await?;
        until_accepted(&bus, weak, 304).await?;
        let taken = driver.take().await?;
        fail(&bus, weak).await?;
        assert!(driver.acknowledge(taken).await.is_err());
        bus.quiet().await?;
        let ledger = Ledger::read(&bus).await;
        ledger.check_done("failed");
        let from_one = ledger.fates(one, weak);
        assert_eq!((from_one.len(), from_one[0]), (301, Fate::Handled));
        assert!(from_one[1..].iter().all(|fate| *fate == Fate::Dead(DeadReason::Failed)));
        assert_eq!(ledger.fates(two, weak), [Fate::Dead(DeadReason::Failed); 3]);
        assert_eq!(bus.inspect(one).await?.counts.told_dead, 300);
        assert_eq!(bus.progress().dead, 303);
        let mut bus = bus;
        for round in 0..2 {
            // Nobody is there to talk to, nobody thinks in it; the others go on.
            let answer = bus.send(one, Draft::text(weak, "hello")).await.unwrap_err();
            assert_eq!(answer.code(), Code::NotFound, "round {round}");
            house::send_all(&bus, (one, two), ["go on"]).await?;
            bus.quiet().await?;
            assert_eq!(phase_of(&bus, weak).await?, Phase::Failed, "round {round}");
            bus.shut_down().await?;
            bus = house::open_on(&disk, &config()).await?;
        }
        bus.close(weak).await?;
        bus.quiet().await?;
        assert_eq!(phase_of(&bus, weak).await?, Phase::Closed);
        Ledger::read(&bus).await.check_done("closed");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn f09_m56_a_crash_anywhere_in_a_failure_ends_as_failed_with_all_mail_dead_or_as_alive() {
    let mut config = house::small(Durability::Sync);
    config.life.respawn_max = 0;
    let mut phases = Vec::new();
    for n in 1.. {
        let done = house::run(async {
            let disk = SimDisk::new();
            let bus = house::open_on(&disk, &config).await?;
            let [one, weak] = house::circle(&bus, [("one", "sink"), ("weak", "driver")]).await?;
            // A frame of this size buries a third of it.
            let receipts =
                house::send_all(&bus, (one, weak), (0..30).map(|n| n.to_string())).await?;
            until_accepted(&bus, weak, 30).await?;
            disk.stop_at(Some(disk.calls() + n));
            house::fall(&bus, weak).await;
            let quiet = tokio::select! {
                quiet = bus.quiet() => quiet.is_ok(),
                () = house::stopped(&disk) => false,
            };
            let done = quiet && disk.stopped().is_none();
            let when = format!("crash at call {n} of the failure, seed {n}");
            let disk = disk.crash_seeded(n);
            drop(bus);

            let bus = house::open_on(&disk, &config).await?;
            let phase = phase_of(&bus, weak).await?;
            phases.push(phase);
            let end = if phase == Phase::Active {
                let mut driver = bus.attach(weak).await?;
                house::take_all(&mut driver, 30).await?;
                Fate::Handled
            } else {
                Fate::Dead(DeadReason::Failed)
            };
            bus.quiet().await?;
            let ledger = Ledger::read(&bus).await;
            ledger.check_done(&when);
            ledger.check_receipts(&receipts, &when);
            assert_eq!(ledger.fates(one, weak), vec![end; 30], "{when}: {phase:?}");
            bus.shut_down().await?;
            Ok::<bool, Error>(done)
        });
        if done.unwrap() {
            break;
        }
    }
    assert!(phases.contains(&Phase::Failed) && phases.contains(&Phase::Active), "{phases:?}");
}

#[test]
fn m99_a_failure_that_cannot_be_recorded_buries_nothing_and_the_next_opening_goes_on() {
    // Where another write comes first, that one has failed: once more.
    assert!((0..20).any(|_| house::run(an_unrecorded_failure()).unwrap()));
}

/// Whether the failure could not be recorded.
async fn an_unrecorded_failure() -> Result<bool, Error> {
    let disk = SimDisk::new();
    let mut config = config();
    config.life.respawn_max = 0;
    let bus = house::open_on(&disk, &config).await?;
    let [one, weak] = house::circle(&bus, [("one", "sink"), ("weak", "driver")]).await?;
    house::send_all(&bus, (one, weak), ["1", "2"]).await?;
    until_accepted(&bus, weak, 2).await?;
    bus.shut_down().await?;

    let bus = house::open_on(&disk, &config).await?;
    drop(bus.attach(weak).await?);
    disk.fail_kind(CallKind::Write, disk.calls_of(CallKind::Write) + 1, DiskFault::Io);
    house::fall(&bus, weak).await;
    while bus.n_stranded() == 0 {
        tokio::task::yield_now().await;
    }
    bus.quiet().await?;
    let recorded = phase_of(&bus, weak).await? == Phase::Failed;
    assert_eq!(bus.progress().dead, if recorded { 2 } else { 0 });
    // The write that was to fail may be one of the stop.
    drop(bus.shut_down().await);

    let bus = house::open_on(&disk, &config).await?;
    if !recorded {
        let mut driver = bus.attach(weak).await?;
        assert_eq!(house::take_all(&mut driver, 2).await?, ["1", "2"]);
    }
    bus.quiet().await?;
    Ledger::read(&bus).await.check_done("opened again");
    bus.shut_down().await?;
    Ok(!recorded)
}

/// Panics whatever it is shown.
struct Squeamish;

impl Observer for Squeamish {
    fn accepted(&self, _: &Message) {
        std::panic::resume_unwind(Box::new("told to panic"));
    }
    fn handled(&self, _: &Message) {
        std::panic::resume_unwind(Box::new("told to panic"));
    }
    fn dead(&self, _: &Message) {
        std::panic::resume_unwind(Box::new("told to panic"));
    }
}

#[test]
fn m99_an_observer_that_panics_costs_no_session_a_fall() {
    house::run(async {
        let mut config = config();
        config.life.respawn_max = 0;
        let (builder, _) = house::builder(Arc::new(SimDisk::new()), config);
        let bus = builder.observe(Arc::new(Squeamish)).open().await?;
        let [lead, echo, worker] =
            house::circle(&bus, [("lead", "sink"), ("echo", "echo"), ("worker", "driver")]).await?;
        for text in ["1", "2", "3"] {
            house::send_all(&bus, (lead, echo), [text]).await?;
            house::send_all(&bus, (lead, worker), [text]).await?;
        }
        until_accepted(&bus, worker, 3).await?;
        bus.close(worker).await?;
        bus.quiet().await?;
        for id in [lead, echo] {
            assert_eq!(phase_of(&bus, id).await?, Phase::Active);
        }
        let ledger = Ledger::read(&bus).await;
        ledger.check_done("the observer was of no use");
        assert_eq!(ledger.fates(lead, worker), [Fate::Dead(DeadReason::Closed); 3]);
        assert_eq!((bus.progress().handled, bus.progress().dead), (6, 3));
        bus.shut_down().await
    })
    .unwrap();
}
