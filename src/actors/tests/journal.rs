//! The journal under the data path: the log itself, and a store that fails.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use super::agents::{Echo, sink, soon, source};
use super::flaky::{Failures, Flaky};
use super::town::{Town, factory};
use crate::actors::{Agent, Control, Driver, Factory, Next, StepFuture, Turn};
use crate::config::{Config, StoreConfig};
use crate::error::Code;
use crate::persist::store::SnapshotsWanted;
use crate::persist::{LogStore, SimDisk, Store};
use crate::protocol::{Draft, SessionId};

struct Nobody;

impl SnapshotsWanted for Nobody {
    fn wanted(&self, _: Vec<SessionId>) {}
}

fn patient() -> Config {
    let mut config = Config::default();
    config.limits.pending_max = 5;
    config.limits.resend_after = Duration::from_millis(20);
    config.limits.retry_backoff = Duration::from_millis(1);
    config.limits.attempts_max = 100;
    config.store.snapshot_every = 10;
    config
}

fn bodies(seen: &Arc<AtomicUsize>, count: u64) -> Vec<(&'static str, Arc<dyn Factory>)> {
    vec![
        ("source", source(count)),
        ("sink", sink(seen, 0)),
        ("echo", factory(|_| Ok(Box::new(Echo)))),
    ]
}

/// A sink, four sources, and who starts them.
struct Fountain {
    sink: SessionId,
    sources: Vec<SessionId>,
    starter: Driver,
}

impl Fountain {
    async fn new(town: &Town) -> Self {
        let sink = town.agent("sink", "sink").await;
        let mut sources = Vec::new();
        for index in 0..4 {
            sources.push(town.agent(&format!("source-{index}"), "source").await);
        }
        Fountain { sink, sources, starter: town.driver("starter").await }
    }

    /// Starts the sources and waits until all is quiet: everything has exactly one outcome.
    /// Returns how many messages the sink has handled.
    async fn pour(&self, town: &Town) -> u64 {
        for source in &self.sources {
            let start = || Draft::text(*source, "start");
            while soon(self.starter.send_when_room(start())).await.is_err() {}
        }
        soon(town.shared.quiet()).await;
        let counts = town.inspect(self.sink).await.counts;
        let (mut queued, mut told) = (0, 0);
        for source in &self.sources {
            let inspection = town.inspect(*source).await;
            assert_eq!(inspection.unsettled, 0);
            queued += inspection.counts.queued;
            told += inspection.counts.told_dead;
        }
        assert_eq!((counts.accepted, counts.handled + counts.dead), (queued, queued));
        assert_eq!(counts.dead, told);
        for id in self.sources.iter().chain([&self.sink]) {
            assert_eq!(town.shared.cell(*id).n_pending(), 0, "room is held by nobody");
        }
        counts.handled
    }
}

#[tokio::test]
async fn what_the_log_keeps_is_what_the_next_life_finds() {
    let mut config = patient();
    config.store = StoreConfig {
        segment_bytes: 1 << 16,
        frame_max: 1 << 15,
        snapshot_every: 10,
        ..StoreConfig::default()
    };
    config.limits.message_max = 8_192;
    let disk = Arc::new(SimDisk::new());
    let open = || {
        let disk = Arc::clone(&disk) as _;
        Arc::new(LogStore::open(disk, &config.store, Arc::new(Nobody)).unwrap())
    };
    let seen = Arc::default();
    let store = open();
    let town = Town::over(Arc::clone(&store) as _, config.clone(), bodies(&seen, 200));
    assert_eq!(Fountain::new(&town).await.pour(&town).await, 800);
    soon(town.shared.shut_down()).await;
    store.close().unwrap();
    drop(store);
    let store = open();
    let town = Town::over(Arc::clone(&store) as _, config.clone(), bodies(&seen, 200));
    let (mut queued, mut handled) = (0, 0);
    for head in store.heads() {
        assert!(!head.pending, "all was quiet");
        let inspection = town.inspect(head.session).await;
        queued += inspection.counts.queued;
        handled += inspection.counts.handled;
    }
    assert_eq!((queued, handled), (804, 804));
    soon(town.shared.shut_down()).await;
    store.close().unwrap();
}

#[tokio::test]
async fn failed_tickets_end_loads_and_everything_is_still_handled_once() {
    for ticket_every in [2, 3, 5, 7, 31, 100] {
        let config = patient();
        let store = Flaky::new(&config.store, Failures::default());
        let seen = Arc::default();
        let town = Town::over(Arc::clone(&store) as _, config, bodies(&seen, 60));
        let fountain = Fountain::new(&town).await;
        let pouring = fountain.pour(&town);
        let failing = async {
            store.fail(Failures { ticket_every, ..Failures::default() });
            tokio::time::sleep(Duration::from_millis(100)).await;
            store.fail(Failures::default());
        };
        tokio::join!(pouring, failing);
        soon(town.shared.shut_down()).await;
    }
}

#[tokio::test]
async fn a_full_journal_refuses_sends_and_keeps_what_settles() {
    let config = patient();
    let failures =
        Failures { wait_every: 3, full_every: 5, settle_full_every: 7, ..Failures::default() };
    let store = Flaky::new(&config.store, Failures::default());
    let seen = Arc::default();
    let town = Town::over(Arc::clone(&store) as _, config, bodies(&seen, 60));
    let fountain = Fountain::new(&town).await;
    let pouring = fountain.pour(&town);
    let failing = async {
        store.fail(failures);
        tokio::time::sleep(Duration::from_millis(200)).await;
        store.fail(Failures::default());
    };
    let (handled, ()) = tokio::join!(pouring, failing);
    assert_eq!(handled, 240);
    soon(town.shared.shut_down()).await;
}

#[tokio::test]
async fn an_actor_that_panics_ends_its_load_and_nothing_is_lost_or_leaked() {
    for panic_every in [13, 50] {
        let config = patient();
        let store = Flaky::new(&config.store, Failures::default());
        let seen = Arc::default();
        let town = Town::over(Arc::clone(&store) as _, config, bodies(&seen, 60));
        let fountain = Fountain::new(&town).await;
        let pouring = fountain.pour(&town);
        let failing = async {
            store.fail(Failures { panic_every, ..Failures::default() });
            tokio::time::sleep(Duration::from_millis(50)).await;
            store.fail(Failures::default());
        };
        tokio::join!(pouring, failing);
        soon(town.shared.shut_down()).await;
    }
}

#[tokio::test]
async fn a_damaged_journal_leaves_mail_with_its_senders_until_it_can_be_read() {
    let mut config = patient();
    config.life.idle_unload = Duration::ZERO;
    config.store.snapshot_every = 1_000;
    let store = Flaky::new(&config.store, Failures::default());
    let seen = Arc::default();
    let town = Town::over(Arc::clone(&store) as _, config, bodies(&seen, 1));
    let sink = town.agent("sink", "sink").await;
    let sender = town.driver("sender").await;
    soon(async {
        while town.shared.cell(sink).phase() != crate::actors::cell::Phase::Cold {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    store.fail(Failures { damaged: true, ..Failures::default() });
    soon(sender.send(Draft::text(sink, "a"))).await.unwrap();
    let fault = soon(town.shared.call(sink, |reply| Control::Inspect { reply })).await;
    assert_eq!(fault.unwrap_err().code(), Code::JournalCorrupt);
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(town.inspect(sender.id()).await.unsettled, 1);
    store.fail(Failures::default());
    town.shared.cell(sink).push(Control::Respawn);
    soon(town.shared.quiet()).await;
    assert_eq!(town.inspect(sink).await.counts.handled, 1);
    soon(town.shared.shut_down()).await;
}

#[tokio::test]
async fn a_refused_send_has_left_nothing_behind() {
    let config = patient();
    let store = Flaky::new(&config.store, Failures::default());
    let seen = Arc::default();
    let town = Town::over(Arc::clone(&store) as _, config, bodies(&seen, 1));
    let target = town.driver("target").await;
    let sender = town.driver("sender").await;
    store.fail(Failures { full_every: 1, ..Failures::default() });
    for _ in 0..20 {
        let refused = soon(sender.send(Draft::text(target.id(), "a"))).await.unwrap_err();
        assert_eq!(refused.code(), Code::StoreFull);
    }
    store.fail(Failures { ticket_every: 1, ..Failures::default() });
    let unknown = soon(sender.send(Draft::text(target.id(), "a"))).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotDurable);
    store.fail(Failures::default());
    let receipt = soon(town.send(sender.id(), target.id(), "a")).await.unwrap();
    assert_eq!(receipt.n, 1);
    assert_eq!(town.shared.cell(target.id()).n_pending(), 1);
    soon(town.shared.shut_down()).await;
    let closed = town.send(sender.id(), target.id(), "a").await.unwrap_err();
    assert_eq!(closed.code(), Code::Closed);
}

/// Notes each text when it comes for the first time.
struct Recorder(Arc<Mutex<Vec<u64>>>);

impl Agent for Recorder {
    fn step<'a>(&'a mut self, turn: &'a mut Turn) -> StepFuture<'a> {
        Box::pin(async move {
            let mut seen = self.0.lock().unwrap();
            for item in turn.messages() {
                let number = item.message.body.as_str().parse().unwrap();
                if !seen.contains(&number) {
                    seen.push(number);
                }
            }
            Ok(Next::End)
        })
    }
}

#[tokio::test]
async fn sends_that_a_fallen_load_has_not_decided_keep_their_order() {
    let mut config = patient();
    config.life.drain_budget = 8;
    let store = Flaky::new(&config.store, Failures::default());
    let seen = Arc::<Mutex<Vec<u64>>>::default();
    let notes = Arc::clone(&seen);
    let recorder = factory(move |_| Ok(Box::new(Recorder(Arc::clone(&notes)))));
    let town = Town::over(Arc::clone(&store) as _, config, vec![("recorder", recorder)]);
    let target = town.agent("target", "recorder").await;
    let sender = town.driver("sender").await;
    // The way is known from here on: what comes is not all received before the first fall.
    soon(sender.send(Draft::text(target, "0"))).await.unwrap();
    store.fail(Failures { ticket_every: 1, ..Failures::default() });
    let mut sends = Vec::new();
    for number in 1..300 {
        let mut send = Box::pin(sender.send_when_room(Draft::text(target, number.to_string())));
        let begun = send.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(begun.is_pending(), "{begun:?}");
        sends.push(send);
    }
    store.fail(Failures { ticket_every: 11, ..Failures::default() });
    for (number, send) in sends.into_iter().enumerate() {
        if let Err(error) = soon(send).await {
            assert_eq!(error.code(), Code::NotDurable, "send {number}");
        }
    }
    store.fail(Failures::default());
    soon(town.shared.quiet()).await;
    let seen = seen.lock().unwrap().clone();
    assert!(seen.is_sorted(), "{seen:?}");
    drop(sender);
    soon(town.shared.shut_down()).await;
}
