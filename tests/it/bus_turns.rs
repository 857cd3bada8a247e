//! Turns through crashes: staged sends, kept state and the end of the turn are one.

use callboard::persist::SimDisk;
use callboard::protocol::Draft;
use callboard::{Durability, Error};

use crate::house;
use crate::ledger::Ledger;

#[test]
fn f13_m59_a_crash_at_any_call_neither_loses_nor_repeats_what_a_turn_staged() {
    for n in (1_u64..).step_by(2) {
        let done = house::run(async {
            let disk = SimDisk::new();
            let config = house::config(Durability::Sync);
            let bus = house::open_on(&disk, &config).await?;
            let [lead, source] =
                house::circle(&bus, [("lead", "driver"), ("source", "source")]).await?;
            disk.stop_at(Some(disk.calls() + n));
            let asked = bus.send(lead, Draft::text(source, "20")).await;
            let drained = match bus.attach(lead).await {
                Ok(mut driver) => tokio::select! {
                    drained = house::take_all(&mut driver, 20) => drained.map(drop),
                    // What was not asked for never comes.
                    () = house::stopped(&disk) => Ok(()),
                },
                Err(error) => Err(error),
            };
            let done = disk.stopped().is_none();
            let when = format!("crash at call {n}, seed {n}, after {drained:?}");
            let disk = disk.crash_seeded(n);
            drop(bus);

            let bus = house::open_on(&disk, &config).await?;
            house::drain(&bus).await?;
            let ledger = Ledger::read(&bus).await;
            ledger.check_done(&when);
            let due: Vec<String> = (0..20).map(|n| n.to_string()).collect();
            let texts = ledger.texts(source, lead);
            if asked.is_ok() || !texts.is_empty() {
                assert_eq!(texts, due, "{when}");
            }
            bus.shut_down().await?;
            Ok::<bool, Error>(done)
        });
        if done.unwrap() {
            return;
        }
    }
}

#[test]
fn m98_f11_a_source_that_meets_a_full_target_waits_without_polling() {
    house::run(async {
        let disk = SimDisk::new();
        let mut config = house::config(Durability::Sync);
        config.limits.pending_max = 4;
        let bus = house::open_on(&disk, &config).await?;
        let [lead, source] =
            house::circle(&bus, [("lead", "driver"), ("source", "source")]).await?;
        bus.send(lead, Draft::text(source, "100")).await?;
        while bus.inspect(lead).await?.pending < 4 {
            tokio::task::yield_now().await;
        }
        for _ in 0..300 {
            bus.inspect(source).await?;
        }
        let turns = Ledger::read(&bus).await.turns(source);
        assert!(turns.len() <= 3, "{} turns while there was no room", turns.len());
        let mut driver = bus.attach(lead).await?;
        let due: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        assert_eq!(house::take_all(&mut driver, 100).await?, due);
        bus.quiet().await?;
        let ledger = Ledger::read(&bus).await;
        ledger.check_done("drained");
        let turns = ledger.turns(source);
        assert!(turns.len() <= 110, "{} turns for 100 messages", turns.len());
        assert!(turns.iter().all(Option::is_none));
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m25_m53_looking_at_a_session_whose_message_is_tried_again_disturbs_nothing() {
    house::run(async {
        let mut config = house::config(Durability::Memory);
        config.limits.retry_backoff = std::time::Duration::from_millis(1);
        config.limits.attempts_max = 12;
        let bus = house::open_on(&SimDisk::new(), &config).await?;
        let [lead, worker] =
            house::circle(&bus, [("lead", "sink"), ("worker", "obedient")]).await?;
        for round in 0..4 {
            bus.send(lead, Draft::text(worker, "fail")).await?;
            while bus.inspect(worker).await?.counts.dead <= round {}
        }
        let ledger = Ledger::read(&bus).await;
        let turns = ledger.turns(worker);
        assert_eq!(turns.len(), 48);
        assert!(turns.iter().all(|end| end.as_deref() == Some("TOLD")), "{turns:?}");
        bus.shut_down().await
    })
    .unwrap();
}
