//! What a refusal says, and calls that are refused before anything happens.

use std::sync::Arc;

use callboard::bus::{Bus, Page};
use callboard::persist::SimDisk;
use callboard::protocol::{Draft, Message};
use callboard::{Code, Config, Durability, Error};

use crate::house;

#[test]
fn m93_a_refusal_by_a_limit_shows_its_code_the_limit_and_what_was_asked_for() {
    house::run(async {
        let mut config = house::config(Durability::Sync);
        config.limits.pending_max = 1;
        let limit = config.limits.message_max;
        let bus = house::open(Arc::new(SimDisk::new()), config).await?;
        let [lead, full] = house::circle(&bus, [("lead", "sink"), ("full", "driver")]).await?;
        bus.send(lead, Draft::text(full, "1")).await?;
        let refused = bus.send(lead, Draft::text(full, "2")).await.unwrap_err().to_string();
        assert!(refused.starts_with("MAILBOX_FULL: "), "{refused}");
        assert!(refused.ends_with(" (limit 1, asked for 2)"), "{refused}");
        let large = Draft::text(full, "x".repeat(limit));
        let refused = bus.send(lead, large).await.unwrap_err().to_string();
        let asked = Message::ENVELOPE + limit + 2;
        assert!(refused.starts_with("MESSAGE_TOO_LARGE: "), "{refused}");
        assert!(refused.ends_with(&format!(" (limit {limit}, asked for {asked})")), "{refused}");
        let plain = bus.send(lead, Draft::text(lead, "3")).await.unwrap_err().to_string();
        assert_eq!(plain, "SELF_MESSAGE: a session cannot send to itself");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m93_a_message_limit_that_the_envelope_alone_reaches_is_refused_at_the_start() {
    for message_max in [256, Message::ENVELOPE, 1_023] {
        let mut config = Config::default();
        config.limits.message_max = message_max;
        let refused = config.validate().unwrap_err();
        assert_eq!(refused.code, Code::InvalidConfig);
        assert!(refused.text.contains("must be 1024 to 1048576"), "{}", refused.text);
    }
    let mut config = Config::default();
    config.limits.message_max = 1_024;
    assert_eq!(config.validate(), Ok(()));
}

#[test]
fn m59_a_turn_that_is_acknowledged_twice_is_told_to_be_over() {
    house::run(async {
        let config = house::config(Durability::Sync);
        let bus = house::open(Arc::new(SimDisk::new()), config).await?;
        let [lead, worker] = house::circle(&bus, [("lead", "sink"), ("worker", "driver")]).await?;
        bus.send(lead, Draft::text(worker, "work")).await?;
        let mut driver = bus.attach(worker).await?;
        let taken = driver.take().await?;
        driver.acknowledge(taken.clone()).await?;
        let again = driver.acknowledge(taken).await.unwrap_err();
        assert_eq!(again.to_string(), "STALE_CALLER: the turn is not open any more");
        let second = bus.attach(worker).await.map(drop).unwrap_err();
        assert_eq!(second.to_string(), "STALE_CALLER: the session is driven by another handle");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn a_page_of_no_frames_is_refused() {
    house::run(async {
        let config = house::config(Durability::Sync);
        let bus = house::open(Arc::new(SimDisk::new()), config).await?;
        let one = house::create(&bus, "one", "sink").await?;
        let refused = bus.history(one, Page { before: None, limit: 0 }).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m60_a_directory_that_would_stay_empty_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    let refused = house::run(async {
        let config = house::config(Durability::Memory);
        Bus::builder().config(config).data_dir(&data).open().await.map(drop).unwrap_err()
    });
    assert!(matches!(refused, Error::Refused(_)), "{refused}");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(!data.exists());
}

#[test]
fn m17_a_closed_session_is_not_found_by_who_sends_to_it() {
    house::run(async {
        let config = house::config(Durability::Sync);
        let bus = house::open(Arc::new(SimDisk::new()), config).await?;
        let [lead, gone] = house::circle(&bus, [("lead", "sink"), ("gone", "sink")]).await?;
        let stranger = house::create(&bus, "stranger", "sink").await?;
        bus.close(gone).await?;
        let closed = bus.send(lead, Draft::text(gone, "hello")).await.unwrap_err();
        let denied = bus.send(lead, Draft::text(stranger, "hello")).await.unwrap_err();
        assert_eq!(closed.code(), Code::NotFound);
        assert_eq!(closed, denied);
        bus.shut_down().await
    })
    .unwrap();
}
