//! Ids, labels, limits and statuses, as a caller of the bus meets them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use callboard::bus::{BodySpec, Create, Status};
use callboard::persist::SimDisk;
use callboard::protocol::{Body, Draft, Label, Workspace};
use callboard::{Code, Durability, Error};

use crate::{cast, house};

#[test]
fn m01_a_label_is_never_given_twice_not_even_after_its_session_has_ended() {
    house::run(async {
        let disk = Arc::new(SimDisk::new());
        let bus = house::open(disk.clone(), house::config(Durability::Sync)).await?;
        let one = house::create(&bus, "one", "sink").await?;
        let again = house::create(&bus, "one", "sink").await.unwrap_err();
        assert_eq!(again.code(), Code::NameTaken);
        bus.close(one).await?;
        let after_its_end = house::create(&bus, "one", "sink").await.unwrap_err();
        bus.shut_down().await?;
        let bus = house::open(disk, house::config(Durability::Sync)).await?;
        let after_a_restart = house::create(&bus, "one", "sink").await.unwrap_err();
        assert_eq!((&after_its_end, &after_a_restart), (&again, &again));
        assert_eq!(bus.find(&house::label("one")).await?, one);
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m01_m02_labels_outside_the_grammar_are_refused_before_anything_is_written() {
    let long = "a".repeat(Label::MAX + 1);
    for text in ["", "-", "a--b", "A", "a b", "ä", "..", "a/b", "a\0", "supervisor", &long] {
        let refused = Label::new(text).unwrap_err();
        assert_eq!(refused.code, Code::InvalidArgument, "{text:?}");
    }
    for text in ["a", "0", "a-1-b", &long[1..]] {
        assert!(Label::new(text).is_ok(), "{text:?}");
    }
}

#[test]
fn m08_a_status_is_computed_from_what_the_session_does() {
    house::run(async {
        let disk = Arc::new(SimDisk::new());
        let bus = house::open(disk, house::config(Durability::Sync)).await?;
        let sender = house::create(&bus, "sender", "sink").await?;
        let driven = house::create(&bus, "driven", "driver").await?;
        bus.connect(sender, driven).await?;
        assert_eq!(bus.inspect(driven).await?.status, Status::Idle);
        let mut driver = bus.attach(driven).await?;
        bus.send(sender, Draft::text(driven, "work")).await?;
        let taken = driver.take().await?;
        assert_eq!(bus.inspect(driven).await?.status, Status::Running);
        driver.acknowledge(taken).await?;
        assert_eq!(bus.inspect(driven).await?.status, Status::Idle);
        bus.close(driven).await?;
        assert_eq!(bus.inspect(driven).await?.status, Status::Closed);
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m08_a_cold_session_is_looked_at_without_being_woken_and_a_failed_one_says_so() {
    house::run(async {
        let disk = SimDisk::new();
        let mut config = house::config(Durability::Sync);
        config.life.idle_unload = Duration::ZERO;
        config.life.respawn_max = 0;
        let n_made = Arc::new(AtomicUsize::new(0));
        let open = async || {
            let (builder, _) = house::builder(Arc::new(disk.clone()), config.clone());
            builder.agent("counted", cast::counted(&n_made)).open().await
        };
        let bus = open().await?;
        let [lead, cold, weak] =
            house::circle(&bus, [("lead", "sink"), ("cold", "counted"), ("weak", "driver")])
                .await?;
        for round in 1..=20 {
            house::send_all(&bus, (lead, cold), ["mail"]).await?;
            bus.quiet().await?;
            // It may be asked while it is on its way out: that does not call it back.
            while bus.inspect(cold).await?.status != Status::Inactive {
                tokio::task::yield_now().await;
            }
            let before = n_made.load(Ordering::Relaxed);
            for _ in 0..5 {
                let seen = bus.inspect(cold).await?;
                assert_eq!((seen.status, seen.counts.handled), (Status::Inactive, round));
                assert!(seen.quiet && seen.label == house::label("cold"));
            }
            assert_eq!(n_made.load(Ordering::Relaxed), before);
        }
        house::send_all(&bus, (lead, weak), ["never handled"]).await?;
        while bus.inspect(weak).await?.pending == 0 {
            tokio::task::yield_now().await;
        }
        house::fall(&bus, weak).await;
        bus.quiet().await?;
        let mut bus = bus;
        n_made.store(0, Ordering::Relaxed);
        for _ in 0..2 {
            let seen = bus.inspect(weak).await?;
            assert_eq!((seen.status, seen.counts.dead), (Status::Failed, 1));
            assert_eq!(bus.inspect(cold).await?.counts.handled, 20);
            bus.shut_down().await?;
            assert_eq!(bus.inspect(cold).await.unwrap_err().code(), Code::Closed);
            bus = open().await?;
        }
        assert_eq!(n_made.load(Ordering::Relaxed), 0);
        bus.close(weak).await?;
        assert_eq!(bus.inspect(weak).await?.status, Status::Closed);
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m32_a_message_over_the_limit_with_its_envelope_is_refused_and_leaves_no_trace() {
    house::run(async {
        let disk = Arc::new(SimDisk::new());
        let config = house::config(Durability::Sync);
        let limit = config.limits.message_max;
        let bus = house::open(disk, config).await?;
        let one = house::create(&bus, "one", "sink").await?;
        let two = house::create(&bus, "two", "sink").await?;
        bus.connect(one, two).await?;
        bus.quiet().await?;
        let before = (house::newest(&bus, one).await?, house::newest(&bus, two).await?);
        // A quote takes two bytes in the journal, and the text two quotes of its own.
        let quotes = (limit - callboard::protocol::Message::ENVELOPE - 2) / 2;
        let refused = bus.send(one, Draft::text(two, "\"".repeat(quotes + 1))).await.unwrap_err();
        let Error::Refused(refused) = refused else { panic!("{refused}") };
        assert_eq!(refused.code, Code::MessageTooLarge);
        assert_eq!(refused.limit, Some(limit as u64));
        assert!(refused.current > refused.limit, "{refused:?}");
        let after = (house::newest(&bus, one).await?, house::newest(&bus, two).await?);
        assert_eq!(after, before);
        bus.send(one, Draft::text(two, "\"".repeat(quotes))).await?;
        bus.quiet().await?;
        assert_eq!(bus.inspect(two).await?.counts.handled, 1);
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m31_a_session_cannot_send_to_itself() {
    house::run(async {
        let disk = Arc::new(SimDisk::new());
        let bus = house::open(disk, house::config(Durability::Sync)).await?;
        let one = house::create(&bus, "one", "sink").await?;
        let refused = bus.send(one, Draft::text(one, "hello")).await.unwrap_err();
        assert_eq!(refused.code(), Code::SelfMessage);
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m34_f26_a_json_body_comes_out_as_it_went_in() {
    house::run(async {
        let raw =
            r#"{"n":1.0,"n":1e0,"t":"\u0000 \ud83d\ude00","big":123456789012345678901234567890}"#;
        let disk = Arc::new(SimDisk::new());
        let bus = house::open(disk.clone(), house::config(Durability::Sync)).await?;
        let one = house::create(&bus, "one", "sink").await?;
        let two = house::create(&bus, "two", "driver").await?;
        bus.connect(one, two).await?;
        bus.send(one, Draft::json(two, raw)?).await?;
        bus.send(one, Draft::text(two, "\0 \u{202e} 😀")).await?;
        bus.shut_down().await?;
        let bus = house::open(disk, house::config(Durability::Sync)).await?;
        let mut driver = bus.attach(two).await?;
        let mut bodies = Vec::new();
        while bodies.len() < 2 {
            let taken = driver.take().await?;
            bodies.extend(taken.messages.iter().map(|item| item.message.body.clone()));
            driver.acknowledge(taken).await?;
        }
        assert_eq!(bodies, [Body::json(raw)?, Body::Text("\0 \u{202e} 😀".to_owned())]);
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m16_sessions_of_two_workspaces_cannot_be_connected_and_one_without_sees_only_itself() {
    house::run(async {
        let disk = Arc::new(SimDisk::new());
        let bus = house::open(disk, house::config(Durability::Sync)).await?;
        let here = house::create(&bus, "here", "sink").await?;
        let mut made = Vec::new();
        for (name, workspace) in [("there", Some("elsewhere")), ("alone", None), ("also", None)] {
            let workspace = workspace.map(Workspace::new).transpose()?;
            let label = house::label(name);
            made.push(bus.create(Create { label, workspace, body: BodySpec::Driver }).await?);
        }
        for (one, other) in [(here, made[0]), (here, made[1]), (made[1], made[2])] {
            let refused = bus.connect(one, other).await.unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument);
        }
        bus.shut_down().await
    })
    .unwrap();
}
