//! Restarts of every kind with mail in every state: each receipt has its outcome once, in order.

use callboard::bus::{Bus, Receipt};
use callboard::persist::SimDisk;
use callboard::persist::sim_disk::CallKind;
use callboard::protocol::{Draft, SessionId};
use callboard::{Config, Durability, Error};

use crate::chance::Chance;
use crate::house;
use crate::ledger::Ledger;

/// How a bus ends.
#[derive(Debug, Clone, Copy)]
enum Restart {
    Orderly,
    Killed,
    PowerLost,
}

impl Restart {
    async fn of(self, bus: Bus, disk: &SimDisk, seed: u64) -> Result<SimDisk, Error> {
        Ok(match self {
            Restart::Orderly => {
                bus.shut_down().await?;
                disk.clone()
            }
            Restart::Killed => disk.kill(),
            Restart::PowerLost => disk.crash_seeded(seed),
        })
    }
}

/// Mail is queued, accepted and taken when the bus ends; three times over.
async fn restarts(restart: Restart, config: Config, seed: u64) -> Result<(), Error> {
    let mut chance = Chance(seed);
    let when = format!("{restart:?}, seed {seed}");
    let mut disk = SimDisk::new();
    let mut bus = house::open_on(&disk, &config).await?;
    let [one, two, echo, worker] = house::circle(
        &bus,
        [("one", "sink"), ("two", "sink"), ("echo", "echo"), ("worker", "driver")],
    )
    .await?;
    let mut receipts: Vec<(SessionId, Receipt)> = Vec::new();
    for _ in 0..3 {
        let mut driver = bus.attach(worker).await?;
        for n in 0..3 + chance.below(20) {
            let (from, to) = ([one, two][chance.below(2)], [echo, worker][chance.below(2)]);
            let receipt = bus.send_when_room(from, Draft::text(to, n.to_string())).await?;
            receipts.push((from, receipt));
        }
        let pending = bus.inspect(worker).await?.pending;
        let taken = if pending > 0 { Some(driver.take().await?) } else { None };
        if let Some(taken) = taken.filter(|_| chance.below(2) == 0) {
            driver.acknowledge(taken).await?;
        }
        disk = restart.of(bus, &disk, seed).await?;
        bus = house::open_on(&disk, &config).await?;
        assert_eq!(bus.recovery().store.quarantined, [], "{when}");
    }
    house::drain(&bus).await?;
    let ledger = Ledger::read(&bus).await;
    ledger.check_done(&when);
    ledger.check_receipts(&receipts, &when);
    bus.shut_down().await
}

#[test]
fn m26_m28_m29_m57_every_receipt_has_its_outcome_once_and_in_order_after_every_restart() {
    for seed in 0..4 {
        for restart in [Restart::Orderly, Restart::Killed, Restart::PowerLost] {
            let config = house::config(Durability::Sync);
            house::run(restarts(restart, config, seed)).unwrap();
            let config = house::small(Durability::Sync);
            house::run(restarts(restart, config, seed)).unwrap();
        }
        let config = house::config(Durability::Written);
        house::run(restarts(Restart::Killed, config, seed)).unwrap();
    }
}

#[test]
fn f27_m29_fifty_unacknowledged_messages_go_before_fifty_new_ones() {
    for seed in 0..10 {
        house::run(async {
            let disk = SimDisk::new();
            let mut config = house::config(Durability::Sync);
            config.limits.pending_max = 100;
            config.limits.window = 8;
            let bus = house::open_on(&disk, &config).await?;
            let [one, two] = house::circle(&bus, [("one", "sink"), ("two", "driver")]).await?;
            house::send_all(&bus, (one, two), (0..50).map(|n| n.to_string())).await?;
            let disk = disk.crash_seeded(seed);
            let bus = house::open_on(&disk, &config).await?;
            house::send_all(&bus, (one, two), (50..100).map(|n| n.to_string())).await?;
            house::drain(&bus).await?;
            let ledger = Ledger::read(&bus).await;
            ledger.check_done(&format!("seed {seed}"));
            let due: Vec<String> = (0..100).map(|n| n.to_string()).collect();
            assert_eq!(ledger.texts(one, two), due, "seed {seed}");
            bus.shut_down().await
        })
        .unwrap();
    }
}

#[test]
fn m62_a_journal_with_pending_work_is_read_once_by_a_restart() {
    house::run(async {
        let (disk, config) = (SimDisk::new(), house::config(Durability::Sync));
        let bus = house::open_on(&disk, &config).await?;
        let mut members = vec![house::create(&bus, "lead", "sink").await?];
        // So many that they are folded by several threads.
        for n in 0..200 {
            members.push(house::create(&bus, &format!("worker-{n}"), "driver").await?);
        }
        bus.group(&house::label("crowd"), &members).await?;
        let (lead, workers) = (members[0], &members[1..]);
        for worker in workers {
            house::send_all(&bus, (lead, *worker), ["work"]).await?;
        }
        for worker in workers {
            while bus.inspect(*worker).await?.pending == 0 {
                tokio::task::yield_now().await;
            }
        }
        let disk = disk.kill();
        let bus = house::open_on(&disk, &config).await?;
        assert!(bus.recovery().resumed >= 200, "{:?}", bus.recovery());
        let n_reads = disk.calls_of(CallKind::Read);
        house::drain(&bus).await?;
        let n_reads = disk.calls_of(CallKind::Read) - n_reads;
        assert!(n_reads < 100, "{n_reads} reads after 200 journals were read");
        Ledger::read(&bus).await.check_done("resumed");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m62_only_sessions_with_pending_work_are_resumed() {
    house::run(async {
        let disk = SimDisk::new();
        let config = house::config(Durability::Sync);
        let bus = house::open_on(&disk, &config).await?;
        let lead = house::create(&bus, "lead", "sink").await?;
        for n in 0..20 {
            let other = house::create(&bus, &format!("other-{n}"), "echo").await?;
            bus.connect(lead, other).await?;
            house::send_all(&bus, (lead, other), ["done before"]).await?;
        }
        bus.quiet().await?;
        let worker = house::create(&bus, "worker", "driver").await?;
        bus.connect(lead, worker).await?;
        house::send_all(&bus, (lead, worker), ["to be done"]).await?;
        while bus.inspect(lead).await?.unsettled > 0 {
            tokio::task::yield_now().await;
        }
        bus.shut_down().await?;
        let bus = house::open_on(&disk, &config).await?;
        assert_eq!(bus.recovery().resumed, 1);
        house::drain(&bus).await?;
        bus.shut_down().await?;
        let bus = house::open_on(&disk, &config).await?;
        assert_eq!(bus.recovery().resumed, 0);
        Ledger::read(&bus).await.check_done("all is done");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m56_m33_a_recovery_that_is_cut_off_again_and_again_leads_to_the_same_end() {
    for seed in 0..6 {
        house::run(async {
            let mut disk = SimDisk::new();
            let config = house::small(Durability::Sync);
            let bus = house::open_on(&disk, &config).await?;
            let [one, two, echo] =
                house::circle(&bus, [("one", "sink"), ("two", "driver"), ("echo", "echo")]).await?;
            let mut receipts = house::send_all(&bus, (one, two), ["1", "2", "3"]).await?;
            receipts.extend(house::send_all(&bus, (one, echo), ["1", "2", "3"]).await?);
            disk = disk.crash_seeded(seed);
            drop(bus);
            for round in 1..30 {
                disk.stop_at(Some(disk.calls() + 5 * round));
                let opened = house::open_on(&disk, &config).await;
                disk = disk.crash_seeded(seed + round);
                drop(opened);
            }
            let bus = house::open_on(&disk, &config).await?;
            let when = format!("seed {seed}");
            house::drain(&bus).await?;
            let ledger = Ledger::read(&bus).await;
            ledger.check_done(&when);
            ledger.check_receipts(&receipts, &when);
            bus.shut_down().await?;
            let bus = house::open_on(&disk, &config).await?;
            bus.quiet().await?;
            assert!(Ledger::read(&bus).await == ledger, "{when}: another recovery, another end");
            bus.shut_down().await
        })
        .unwrap();
    }
}
