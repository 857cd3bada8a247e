//! What an opening does and refuses to do, and what it makes of agents that are not there.

use std::sync::Arc;

use callboard::bus::{Agent, AgentError, BodySpec, Builder, Bus, Create, Origin, Seed};
use callboard::persist::SimDisk;
use callboard::persist::sim_disk::{CallKind, DiskFault};
use callboard::protocol::session::AgentState;
use callboard::protocol::supervisor::Phase;
use callboard::protocol::{Draft, MessageId, SessionId};
use callboard::{Code, Config, Durability, Error};
use serde_json::value::RawValue;

use crate::house;
use crate::ledger::{Fate, Ledger};

fn origin(hash: &str) -> Origin {
    Origin { kind: "trace".to_owned(), hash: hash.to_owned() }
}

fn builder(disk: &SimDisk, config: &Config) -> Builder {
    house::builder(Arc::new(disk.clone()), config.clone()).0
}

/// A directory dedicated to `one`, whose process was killed in the turn that took the message.
async fn interrupted(config: &Config) -> Result<(SimDisk, SessionId, MessageId), Error> {
    let disk = SimDisk::new();
    let (builder, _gate) = house::builder(Arc::new(disk.clone()), config.clone());
    let bus = builder.dedicate(origin("one")).open().await?;
    assert_eq!(bus.origin().await?, Some(origin("one")));
    let [lead, worker] = house::circle(&bus, [("lead", "sink"), ("worker", "obedient")]).await?;
    let held = bus.send(lead, Draft::text(worker, "hold")).await?.id;
    while bus.inspect(worker).await?.taken == 0 {
        tokio::task::yield_now().await;
    }
    Ok((disk.kill(), worker, held))
}

#[test]
fn f15_an_opening_for_another_origin_dispatches_and_records_nothing() {
    house::run(async {
        let config = house::config(Durability::Sync);
        let (disk, worker, held) = interrupted(&config).await?;
        for _ in 0..3 {
            let refused = builder(&disk, &config).dedicate(origin("two")).open().await;
            assert_eq!(refused.map(drop).unwrap_err().code(), Code::WrongOrigin);
        }
        let (builder, gate) = house::builder(Arc::new(disk.clone()), config.clone());
        gate.send_replace(true);
        let bus = builder.dedicate(origin("one")).open().await?;
        assert_eq!(bus.origin().await?, Some(origin("one")));
        bus.quiet().await?;
        let ledger = Ledger::read(&bus).await;
        ledger.check_done("resumed by its own");
        // The process that was killed, and this one: nobody between them has offered it.
        assert_eq!(ledger.attempts(worker, held), 2);
        bus.shut_down().await
    })
    .unwrap();
}

/// Sessions `sink-…`, in order.
async fn sinks(bus: &Bus, count: usize) -> Result<Vec<SessionId>, Error> {
    let mut ids = Vec::with_capacity(count);
    for n in 0..count {
        ids.push(house::create(bus, &format!("sink-{n}"), "sink").await?);
    }
    Ok(ids)
}

#[test]
fn a_group_larger_than_a_frame_is_recorded_in_parts() {
    house::run(async {
        let (disk, config) = (SimDisk::new(), house::small(Durability::Sync));
        let bus = house::open_on(&disk, &config).await?;
        let ids = sinks(&bus, 300).await?;
        bus.group(&house::label("everybody"), &ids).await?;
        bus.shut_down().await?;
        let bus = house::open_on(&disk, &config).await?;
        house::send_all(&bus, (ids[0], ids[299]), ["hello"]).await?;
        bus.quiet().await?;
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn what_cannot_be_made_is_refused_before_anything_is_written() {
    house::run(async {
        let (disk, config) = (SimDisk::new(), house::small(Durability::Sync));
        let bus = house::open_on(&disk, &config).await?;
        let agent = |name: &str, bytes: usize| {
            let text = format!("\"{}\"", "x".repeat(bytes));
            let settings = Some(AgentState(RawValue::from_string(text).unwrap()));
            let body = BodySpec::Agent { name: name.to_owned(), settings };
            Create { label: house::label("one"), workspace: None, body }
        };
        let long = "x".repeat(65);
        for create in [agent("nobody", 1), agent("sink", 255), agent(&long, 1)] {
            let refused = bus.create(create).await.unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
            assert_eq!(bus.list().await?, []);
        }
        bus.create(agent("sink", 254)).await?;
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn settings_that_fit_their_limit_and_no_frame_are_refused() {
    house::run(async {
        let (disk, mut config) = (SimDisk::new(), house::small(Durability::Sync));
        config.limits.agent_state_max = 1 << 20;
        let bus = house::open_on(&disk, &config).await?;
        let text = format!("\"{}\"", "x".repeat(5_000));
        let settings = Some(AgentState(RawValue::from_string(text).unwrap()));
        let body = BodySpec::Agent { name: "sink".to_owned(), settings };
        let create = Create { label: house::label("one"), workspace: None, body };
        assert_eq!(bus.create(create).await.unwrap_err().code(), Code::InvalidArgument);
        house::create(&bus, "one", "sink").await?;
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn a_reason_of_any_length_is_cut_to_what_a_frame_holds() {
    house::run(async {
        let (disk, config) = (SimDisk::new(), house::small(Durability::Sync));
        let (builder, _gate) = house::builder(Arc::new(disk.clone()), config.clone());
        let verbose = |_: Seed| -> Result<Box<dyn Agent>, AgentError> {
            Err(AgentError::new("VERBOSE", "\u{1}".repeat(100_000)))
        };
        let bus = builder.agent("verbose", verbose).open().await?;
        let refused = house::create(&bus, "one", "verbose").await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert_eq!(bus.list().await?[0].phase, Phase::Failed);
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn a_session_whose_factory_is_missing_at_a_restart_keeps_its_mail_until_it_is_back() {
    house::run(async {
        let (disk, config) = (SimDisk::new(), house::config(Durability::Sync));
        let bus = house::open_on(&disk, &config).await?;
        let [lead, worker] = house::circle(&bus, [("lead", "sink"), ("worker", "echo")]).await?;
        bus.shut_down().await?;

        let bare = || Bus::builder().disk(Arc::new(disk.clone())).config(config.clone());
        let sink = || crate::cast::always(|| crate::cast::Sink);
        for (round, builder) in
            [bare(), bare().agent("echo", crate::cast::never())].into_iter().enumerate()
        {
            let bus = builder.agent("sink", sink()).open().await?;
            bus.send(lead, Draft::text(worker, "wait")).await?;
            while bus.inspect(worker).await?.counts.accepted <= round as u64 {
                tokio::task::yield_now().await;
            }
            while bus.n_stranded() == 0 {
                tokio::task::yield_now().await;
            }
            let records = bus.list().await?;
            assert!(records.iter().all(|record| record.phase == Phase::Active), "round {round}");
            bus.shut_down().await?;
        }

        let bus = house::open_on(&disk, &config).await?;
        bus.quiet().await?;
        let ledger = Ledger::read(&bus).await;
        ledger.check_done("the factory is back");
        assert_eq!(ledger.fates(lead, worker), [Fate::Handled, Fate::Handled]);
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn f44_waiting_for_quiet_ends_with_the_fault_of_the_store() {
    house::run(async {
        let (disk, config) = (SimDisk::new(), house::config(Durability::Sync));
        let (builder, _gate) = house::builder(Arc::new(disk.clone()), config.clone());
        let bus = builder.open().await?;
        let [lead, worker] =
            house::circle(&bus, [("lead", "sink"), ("worker", "obedient")]).await?;
        house::send_all(&bus, (lead, worker), ["hold"]).await?;
        let waiting = bus.clone();
        let quiet = house::start(async move { waiting.quiet().await });
        while bus.fault().is_none() {
            disk.fail_kind(CallKind::Sync, disk.calls_of(CallKind::Sync) + 1, DiskFault::Io);
            drop(bus.send(lead, Draft::text(worker, "more")).await);
        }
        assert_eq!(quiet.await.unwrap().unwrap_err().code(), Code::NotDurable);
        assert_eq!(bus.quiet().await.unwrap_err().code(), Code::NotDurable);
        Ok::<(), Error>(())
    })
    .unwrap();
}

/// A session is being made when the `n`-th write from now on fails.
async fn made_with_a_failing_write(n: u64) -> Result<(), Error> {
    let (disk, config) = (SimDisk::new(), house::config(Durability::Sync));
    let bus = house::open_on(&disk, &config).await?;
    house::create(&bus, "before", "sink").await?;
    disk.fail_kind(CallKind::Write, disk.calls_of(CallKind::Write) + n, DiskFault::Io);
    let made = house::create(&bus, "one", "sink").await;
    while half_made(&bus).await? {
        tokio::task::yield_now().await;
    }
    let records = bus.list().await?;
    let one = records.iter().find(|record| record.created.label == house::label("one"));
    if let Ok(id) = &made {
        assert!(one.is_some_and(|one| one.created.id == *id && one.phase == Phase::Active));
    }
    // Where the write that failed was one that prepares a segment, room comes a little later.
    let mut tries = 0;
    while let Err(error) = house::create(&bus, &format!("after-{tries}"), "sink").await {
        assert_eq!(error.code(), Code::StoreFull, "{error}");
        tries += 1;
        tokio::task::yield_now().await;
    }
    drop(bus.shut_down().await);
    Ok(())
}

async fn half_made(bus: &Bus) -> Result<bool, Error> {
    Ok(bus.list().await?.iter().any(|record| record.phase == Phase::Provisioning))
}

#[test]
fn m36_a_session_whose_making_met_a_failing_write_is_settled_without_a_restart() {
    for n in 1..=3 {
        house::run(made_with_a_failing_write(n)).unwrap();
    }
}
