//! Sessions that end: what is told to whom, and what a crash in the middle leaves.

use std::sync::Arc;

use callboard::bus::Status;
use callboard::persist::SimDisk;
use callboard::protocol::session::event::{DeadReason, Reason};
use callboard::protocol::supervisor::Phase;
use callboard::protocol::{Draft, SessionId};
use callboard::{Code, Durability, Error};

use crate::house;
use crate::ledger::{Fate, Ledger};

#[test]
fn m12_f09_f55_a_closed_session_leaves_no_message_without_an_outcome_and_every_sender_told() {
    house::run(async {
        let mut config = house::config(Durability::Sync);
        config.limits.pending_max = 8;
        let bus = house::open(Arc::new(SimDisk::new()), config).await?;
        let [one, two, target] =
            house::circle(&bus, [("one", "sink"), ("two", "sink"), ("target", "driver")]).await?;
        let mut driver = bus.attach(target).await?;
        house::send_all(&bus, (one, target), ["handled"]).await?;
        house::take_all(&mut driver, 1).await?;
        house::send_all(&bus, (one, target), ["taken"]).await?;
        let taken = driver.take().await?;
        house::send_all(&bus, (one, target), ["1", "2", "3", "4"]).await?;
        house::send_all(&bus, (two, target), ["1", "2", "3", "4"]).await?;
        while bus.inspect(target).await?.pending < 8 {
            tokio::task::yield_now().await;
        }
        // Full now: these wait for room, and find a closed door.
        let mut waiting = Vec::new();
        for from in [one, two, one] {
            let bus = bus.clone();
            waiting.push(tokio::spawn(async move {
                bus.send_when_room(from, Draft::text(target, "waits")).await
            }));
        }
        tokio::task::yield_now().await;
        bus.close(target).await?;
        assert!(driver.acknowledge(taken).await.is_err());
        let mut n_waited = 0;
        for send in waiting {
            match send.await.unwrap() {
                Ok(_) => n_waited += 1,
                Err(error) => assert_eq!(error.code(), Code::NotFound, "{error}"),
            }
        }
        bus.quiet().await?;
        let ledger = Ledger::read(&bus).await;
        ledger.check_done("closed");
        let dead = |fate: &&Fate| **fate == Fate::Dead(DeadReason::Closed);
        let from_one = ledger.fates(one, target);
        let from_two = ledger.fates(two, target);
        assert_eq!(from_one[0], Fate::Handled);
        assert_eq!(from_one[1..6], [Fate::Dead(DeadReason::Closed); 5]);
        assert_eq!(from_two[..4], [Fate::Dead(DeadReason::Closed); 4]);
        let late = from_one[6..].iter().chain(&from_two[4..]);
        assert_eq!(late.clone().count(), n_waited);
        assert!(late.clone().all(|fate| *fate == Fate::Refused(Reason::Closed) || dead(&fate)));
        assert_eq!(bus.inspect(target).await?.status, Status::Closed);

        // From now on there is nobody, byte for byte, also for those who knew the way.
        let nobody = SessionId::from_bytes([9; 16]);
        let missing = bus.send(one, Draft::text(nobody, "hello")).await.unwrap_err();
        for from in [one, two] {
            for round in 0..2 {
                let answer = bus.send(from, Draft::text(target, "hello")).await;
                assert_eq!(answer, Err(missing.clone()), "round {round}");
                let waits = bus.send_when_room(from, Draft::text(target, "hello")).await;
                assert_eq!(waits, Err(missing.clone()), "round {round}");
            }
        }
        let after = Ledger::read(&bus).await;
        assert!(after == ledger, "a send to a closed session left a trace");
        assert_eq!(bus.close(target).await, Ok(()), "closed twice is closed");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn f09_m56_a_crash_anywhere_in_a_close_ends_as_closed_or_as_not_begun() {
    for n in 1.. {
        let done = house::run(async {
            let disk = SimDisk::new();
            let config = house::config(Durability::Sync);
            let bus = house::open_on(&disk, &config).await?;
            let [one, target] =
                house::circle(&bus, [("one", "sink"), ("target", "driver")]).await?;
            let receipts = house::send_all(&bus, (one, target), ["1", "2", "3"]).await?;
            disk.stop_at(Some(disk.calls() + n));
            let closed = bus.close(target).await;
            let when = format!("crash at call {n} of the close, seed {n}");
            let done = disk.stopped().is_none();
            let disk = disk.crash_seeded(n);
            drop(bus);

            let bus = house::open_on(&disk, &config).await?;
            let phase = phase_of(&bus, target).await?;
            if closed.is_ok() {
                assert!(matches!(phase, Phase::Closing | Phase::Closed), "{when}: {phase:?}");
            }
            if phase == Phase::Active {
                bus.close(target).await?;
            }
            bus.quiet().await?;
            while phase_of(&bus, target).await? != Phase::Closed {
                tokio::task::yield_now().await;
            }
            let ledger = Ledger::read(&bus).await;
            ledger.check_done(&when);
            ledger.check_receipts(&receipts, &when);
            let ends = [Fate::Dead(DeadReason::Closed), Fate::Refused(Reason::Closed)];
            let fates = ledger.fates(one, target);
            assert!(fates.iter().all(|fate| ends.contains(fate)), "{when}: {fates:?}");
            bus.shut_down().await?;
            Ok::<bool, Error>(done)
        });
        if done.unwrap() {
            assert!(n > 2, "the close made no calls");
            return;
        }
    }
}

async fn phase_of(bus: &callboard::bus::Bus, id: SessionId) -> Result<Phase, Error> {
    let records = bus.list().await?;
    Ok(records.iter().find(|record| record.created.id == id).unwrap().phase)
}

#[test]
fn m04_f31_f42_a_crash_in_a_create_leaves_a_session_that_works_or_one_that_can_be_closed() {
    let mut phases = Vec::new();
    for n in 1.. {
        let done = house::run(async {
            let disk = SimDisk::new();
            let config = house::config(Durability::Sync);
            let bus = house::open_on(&disk, &config).await?;
            let one = house::create(&bus, "one", "sink").await?;
            disk.stop_at(Some(disk.calls() + n));
            let made = house::create(&bus, "made", "sink").await;
            let done = disk.stopped().is_none();
            let when = format!("crash at call {n} of the create, seed {n}");
            let disk = disk.crash_seeded(n);
            drop(bus);

            let bus = house::open_on(&disk, &config).await?;
            let found = bus.find(&house::label("made")).await;
            match &found {
                Err(error) => assert_eq!((error.code(), made.is_err()), (Code::NotFound, true)),
                Ok(id) => {
                    let phase = phase_of(&bus, *id).await?;
                    phases.push(phase);
                    match phase {
                        Phase::Active => {
                            bus.connect(one, *id).await?;
                            bus.send(one, Draft::text(*id, "hello")).await?;
                            bus.quiet().await?;
                            assert_eq!(bus.inspect(*id).await?.counts.handled, 1, "{when}");
                        }
                        phase => {
                            assert_eq!((phase, made.is_err()), (Phase::Failed, true), "{when}");
                            let again = house::create(&bus, "made", "sink").await.unwrap_err();
                            assert_eq!(again.code(), Code::NameTaken, "{when}");
                        }
                    }
                    assert_eq!(bus.close(*id).await, Ok(()), "{when}");
                    assert_eq!(phase_of(&bus, *id).await?, Phase::Closed, "{when}");
                }
            }
            bus.quiet().await?;
            Ledger::read(&bus).await.check_done(&when);
            bus.shut_down().await?;
            Ok::<bool, Error>(done)
        });
        if done.unwrap() {
            break;
        }
    }
    assert!(phases.contains(&Phase::Failed) && phases.contains(&Phase::Active), "{phases:?}");
}
