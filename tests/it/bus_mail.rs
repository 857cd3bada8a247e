//! Mail through the whole house.

use std::sync::Arc;

use callboard::bus::Page;
use callboard::persist::SimDisk;
use callboard::protocol::Draft;
use callboard::{Code, Durability, Error};

use crate::house;

async fn two_talk(durability: Durability) -> Result<(), Error> {
    let disk = Arc::new(SimDisk::new());
    let mut config = house::config(durability);
    // The echo gives up a turn that finds no room.
    config.limits.pending_max = 1_000;
    let bus = house::open(disk.clone(), config).await?;
    let one = house::create(&bus, "one", "sink").await?;
    let two = house::create(&bus, "two", "echo").await?;
    bus.connect(one, two).await?;
    for n in 1..=100 {
        let receipt = bus.send_when_room(one, Draft::text(two, format!("line {n}"))).await?;
        assert_eq!((receipt.n, receipt.durability), (n, durability));
    }
    bus.quiet().await?;
    let (first, second) = (bus.inspect(one).await?, bus.inspect(two).await?);
    assert_eq!((first.counts.queued, first.counts.handled), (100, 100));
    assert_eq!((second.counts.queued, second.counts.handled), (100, 100));
    bus.shut_down().await?;
    if durability != Durability::Memory {
        let bus = house::open(disk, house::config(durability)).await?;
        assert_eq!(bus.inspect(one).await?.counts, first.counts);
        bus.shut_down().await?;
    }
    Ok(())
}

#[test]
fn m26_m27_two_sessions_talk_and_every_message_is_accepted_and_handled() {
    for durability in [Durability::Memory, Durability::Written, Durability::Sync] {
        house::run(two_talk(durability)).unwrap();
    }
}

#[test]
fn m15_m17_f07_a_send_to_nobody_is_refused_and_leaves_no_trace() {
    house::run(async {
        let disk = Arc::new(SimDisk::new());
        let bus = house::open(disk, house::config(Durability::Sync)).await?;
        let one = house::create(&bus, "one", "sink").await?;
        let stranger = house::create(&bus, "stranger", "sink").await?;
        let nobody = callboard::protocol::SessionId::from_bytes([7; 16]);
        bus.quiet().await?;
        let before = (house::newest(&bus, one).await?, house::newest(&bus, stranger).await?);
        let mut answers = Vec::new();
        for target in [nobody, stranger] {
            answers.push(bus.send(one, Draft::text(target, "hello")).await.unwrap_err());
        }
        assert_eq!(answers[0].code(), Code::NotFound);
        assert_eq!(answers[0], answers[1]);
        let after = (house::newest(&bus, one).await?, house::newest(&bus, stranger).await?);
        assert_eq!(after, before);
        assert!(bus.history(nobody, Page { before: None, limit: 1 }).await.is_err());
        bus.shut_down().await
    })
    .unwrap();
}
