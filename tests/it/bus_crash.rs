//! The crash between any two calls to the disk, with the real threads at work.

use std::cell::RefCell;

use callboard::bus::{Bus, Receipt};
use callboard::persist::SimDisk;
use callboard::protocol::{MessageId, SessionId};
use callboard::{Config, Durability, Error};

use crate::house;
use crate::ledger::{Fate, Ledger};

/// What was promised until the crash.
#[derive(Default)]
struct Promised {
    receipts: Vec<(SessionId, Receipt)>,
    acknowledged: Vec<MessageId>,
}

/// A few messages to an echo and to a driver, a turn acknowledged and another one taken.
async fn work(bus: &Bus, promised: &RefCell<Promised>) -> Result<(), Error> {
    let [one, echo, worker] =
        house::circle(bus, [("one", "sink"), ("echo", "echo"), ("worker", "driver")]).await?;
    for to in [echo, worker, echo, worker, worker] {
        let sent = house::send_all(bus, (one, to), ["text"]).await?;
        promised.borrow_mut().receipts.extend(sent);
    }
    let mut driver = bus.attach(worker).await?;
    let taken = driver.take().await?;
    let names: Vec<MessageId> = taken.messages.iter().map(|item| item.message.id).collect();
    driver.acknowledge(taken).await?;
    promised.borrow_mut().acknowledged.extend(names);
    let sent = house::send_all(bus, (one, worker), ["late"]).await?;
    promised.borrow_mut().receipts.extend(sent);
    drop(driver.take().await?);
    Ok(())
}

/// Crashes at the `n`-th call, recovers, checks. Whether the work was done before.
async fn crash_at(n: u64, config: &Config) -> Result<bool, Error> {
    let disk = SimDisk::new();
    let promised = RefCell::default();
    disk.stop_at(Some(n));
    let opened = house::open_on(&disk, config).await;
    let worked = match &opened {
        Ok(bus) => tokio::select! {
            worked = work(bus, &promised) => worked,
            // What needs room that does not come waits for ever.
            () = house::stopped(&disk) => Ok(()),
        },
        Err(error) => Err(error.clone()),
    };
    let when = format!("crash at call {n}, seed {n}, after {worked:?}");
    let done = disk.stopped().is_none();
    let disk = disk.crash_seeded(n);
    drop(opened);

    let bus = house::open_on(&disk, config).await?;
    house::drain(&bus).await?;
    let ledger = Ledger::read(&bus).await;
    let promised = promised.into_inner();
    ledger.check_done(&when);
    ledger.check_receipts(&promised.receipts, &when);
    for (from, receipt) in &promised.receipts {
        if promised.acknowledged.contains(&receipt.id) {
            let fate = ledger.fates(*from, receipt.target)[receipt.n as usize - 1];
            assert_eq!(fate, Fate::Handled, "{when}: {receipt:?} was acknowledged");
            let attempts = ledger.attempts(receipt.target, receipt.id);
            assert_eq!(attempts, 1, "{when}: {receipt:?} was offered after it was acknowledged");
        }
    }
    bus.shut_down().await?;
    Ok(done)
}

fn crash_everywhere(config: &Config, stride: usize) {
    for n in (1..).step_by(stride) {
        if house::run(crash_at(n, config)).unwrap() {
            assert!(n > 20, "the work made no calls");
            return;
        }
    }
}

#[test]
fn m57_f14_f39_a_crash_at_any_call_keeps_every_promise_that_was_made() {
    crash_everywhere(&house::config(Durability::Sync), 3);
}

#[test]
fn m57_f38_f40_a_crash_at_any_call_with_the_smallest_segments_keeps_every_promise() {
    crash_everywhere(&house::small(Durability::Sync), 2);
}
