//! What is given up half-way: asks, takes, handles and sends, and what must not come of it.

use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use callboard::bus::{Agent, AgentError, Bus, Next, Seed, StepFuture, Turn};
use callboard::persist::SimDisk;
use callboard::protocol::{Draft, SessionId};
use callboard::{Code, Config, Durability, Error};
use tokio::sync::watch;

use crate::house;
use crate::ledger::Ledger;

/// Notes every text; at the first one waits for the gate, asks what has arrived, and gives up.
struct Hasty {
    gate: watch::Receiver<bool>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Agent for Hasty {
    fn step<'a>(&'a mut self, turn: &'a mut Turn) -> StepFuture<'a> {
        Box::pin(async move {
            for item in turn.messages() {
                self.seen.lock().unwrap().push(item.message.body.as_str().to_owned());
            }
            drop(self.gate.wait_for(|open| *open).await);
            {
                let arrived = pin!(turn.arrived());
                assert!(house::begin(arrived).is_none());
            }
            // The session looks at the question before the step is done.
            tokio::task::yield_now().await;
            Ok(Next::End)
        })
    }
}

#[test]
fn m59_what_arrives_after_a_step_has_given_up_asking_is_offered_to_the_next_step() {
    house::run(async {
        let (opener, gate) = watch::channel(false);
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let notes = Arc::clone(&seen);
        let factory = move |_: Seed| -> Result<Box<dyn Agent>, AgentError> {
            Ok(Box::new(Hasty { gate: gate.clone(), seen: Arc::clone(&notes) }))
        };
        let config = house::config(Durability::Sync);
        let (builder, _) = house::builder(Arc::new(SimDisk::new()), config);
        let bus = builder.agent("hasty", factory).open().await?;
        let [lead, hasty] = house::circle(&bus, [("lead", "sink"), ("hasty", "hasty")]).await?;
        bus.send(lead, Draft::text(hasty, "1")).await?;
        while bus.inspect(hasty).await?.taken == 0 {
            tokio::task::yield_now().await;
        }
        bus.send(lead, Draft::text(hasty, "2")).await?;
        while bus.inspect(hasty).await?.pending == 0 {
            tokio::task::yield_now().await;
        }
        opener.send_replace(true);
        bus.quiet().await?;
        assert_eq!(*seen.lock().unwrap(), ["1", "2"]);
        for n in 3..40 {
            bus.send(lead, Draft::text(hasty, n.to_string())).await?;
        }
        bus.quiet().await?;
        assert_eq!(*seen.lock().unwrap(), (1..40).map(|n| n.to_string()).collect::<Vec<_>>());
        Ledger::read(&bus).await.check_done("all was seen");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn f29_what_came_for_a_take_that_is_given_up_is_given_to_the_next() {
    house::run(async {
        let config = house::config(Durability::Sync);
        let bus = house::open(Arc::new(SimDisk::new()), config).await?;
        let [lead, worker] = house::circle(&bus, [("lead", "sink"), ("worker", "driver")]).await?;
        let mut driver = bus.attach(worker).await?;
        for text in ["1", "2", "3"] {
            {
                let mut taking = pin!(driver.take());
                assert!(house::begin(taking.as_mut()).is_none());
                bus.send(lead, Draft::text(worker, text)).await?;
                // Then its answer is on its way.
                while bus.inspect(worker).await?.taken == 0 {
                    tokio::task::yield_now().await;
                }
            }
            let taken = driver.take().await?;
            assert_eq!((taken.attempt, taken.messages[0].message.body.as_str()), (1, text));
            // Whoever waits for more before that is acknowledged is not given it once more.
            assert!(house::begin(pin!(driver.take())).is_none());
            bus.inspect(worker).await?;
            assert!(house::begin(pin!(driver.take())).is_none());
            driver.acknowledge(taken).await?;
        }
        bus.quiet().await?;
        Ledger::read(&bus).await.check_done("all is acknowledged");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn f17_a_handle_that_nobody_receives_is_detached() {
    house::run(async {
        let config = house::config(Durability::Sync);
        let bus = house::open(Arc::new(SimDisk::new()), config).await?;
        let worker = house::create(&bus, "worker", "driver").await?;
        for n_polls in 1..8 {
            {
                let mut attaching = pin!(bus.attach(worker));
                for _ in 0..n_polls {
                    if house::begin(attaching.as_mut()).is_some() {
                        break;
                    }
                    // Whatever was asked before this is answered by then.
                    bus.inspect(worker).await?;
                }
            }
            drop(bus.attach(worker).await?);
        }
        bus.shut_down().await
    })
    .unwrap();
}

/// Sends or stages to whom it is told (`send label`, `stage label`), and notes what it is told.
struct Teller(Arc<Mutex<Vec<String>>>);

impl Agent for Teller {
    fn step<'a>(&'a mut self, turn: &'a mut Turn) -> StepFuture<'a> {
        Box::pin(async move {
            for item in turn.messages().to_vec() {
                for order in item.message.body.as_str().split(", ") {
                    let (verb, name) = order.split_once(' ').unwrap();
                    let to = turn.find(&house::label(name)).await?;
                    let told = match verb {
                        "send" => turn.send(Draft::text(to, order)).await.map(drop),
                        _ => turn.stage(Draft::text(to, order)).await.map(drop),
                    };
                    self.0.lock().unwrap().push(match told {
                        Ok(()) => "done".to_owned(),
                        Err(Error::Refused(refused)) => {
                            let (limit, current) = (refused.limit.unwrap(), refused.current);
                            format!("{:?} {limit} {}", refused.code, current.unwrap())
                        }
                        Err(error) => error.to_string(),
                    });
                }
            }
            Ok(Next::End)
        })
    }
}

type Told = Arc<Mutex<Vec<String>>>;

/// A lead, a teller, a target with room for four messages that has four, and a free one.
async fn with_a_full_target(mut config: Config) -> Result<(Bus, [SessionId; 4], Told), Error> {
    config.limits.pending_max = 4;
    let told = Told::default();
    let notes = Arc::clone(&told);
    let factory = move |_: Seed| -> Result<Box<dyn Agent>, AgentError> {
        Ok(Box::new(Teller(Arc::clone(&notes))))
    };
    let (builder, _) = house::builder(Arc::new(SimDisk::new()), config);
    let bus = builder.agent("teller", factory).open().await?;
    let members = [("lead", "sink"), ("teller", "teller"), ("full", "driver"), ("free", "sink")];
    let members = house::circle(&bus, members).await?;
    house::send_all(&bus, (members[1], members[2]), ["1", "2", "3", "4"]).await?;
    Ok((bus, members, told))
}

#[test]
fn m33_a_turn_is_refused_where_a_send_outside_it_waits_for_room() {
    house::run(async {
        let config = house::config(Durability::Sync);
        let (bus, [lead, teller, full, _], told) = with_a_full_target(config).await?;
        let waiting = house::start({
            let bus = bus.clone();
            async move { bus.send_when_room(teller, Draft::text(full, "5")).await }
        });
        let answer = bus.send(teller, Draft::text(full, "6")).await;
        let Err(Error::Refused(refused)) = answer else { panic!("{answer:?}") };
        assert_eq!(refused.code, Code::MailboxFull);
        assert_eq!((refused.limit, refused.current), (Some(4), Some(6)));
        let orders = "stage full, send full, stage free, stage full";
        bus.send(lead, Draft::text(teller, orders)).await?;
        while told.lock().unwrap().len() < 4 {
            tokio::task::yield_now().await;
        }
        let full_up = "MailboxFull 4 6";
        assert_eq!(*told.lock().unwrap(), [full_up, full_up, "done", full_up]);
        let mut driver = bus.attach(full).await?;
        assert_eq!(house::take_all(&mut driver, 5).await?, ["1", "2", "3", "4", "5"]);
        waiting.await.unwrap()?;
        bus.quiet().await?;
        Ledger::read(&bus).await.check_done("drained");
        bus.shut_down().await
    })
    .unwrap();
}

#[test]
fn m33_a_closed_target_is_not_found_though_a_send_waits_for_its_room() {
    for _ in 0..20 {
        house::run(async {
            let config = house::config(Durability::Sync);
            let (bus, [_, teller, full, _], _) = with_a_full_target(config).await?;
            let waiting = house::start({
                let bus = bus.clone();
                async move { bus.send_when_room(teller, Draft::text(full, "5")).await }
            });
            let refused = bus.send(teller, Draft::text(full, "6")).await.unwrap_err();
            assert_eq!(refused.code(), Code::MailboxFull);
            bus.close(full).await?;
            let refused = bus.send(teller, Draft::text(full, "6")).await.unwrap_err();
            assert_eq!(refused.code(), Code::NotFound);
            assert_eq!(waiting.await.unwrap().unwrap_err().code(), Code::NotFound);
            bus.shut_down().await
        })
        .unwrap();
    }
}

#[test]
fn m33_sends_that_are_refused_do_not_count_against_the_limit_of_a_turn() {
    house::run(async {
        let mut config = house::config(Durability::Sync);
        config.limits.sends_per_turn = 2;
        let (bus, [lead, teller, full, _], told) = with_a_full_target(config).await?;
        let orders = "stage full, send full, stage full, stage free, send free, send free";
        bus.send(lead, Draft::text(teller, orders)).await?;
        while told.lock().unwrap().len() < 6 {
            tokio::task::yield_now().await;
        }
        let full_up = "MailboxFull 4 5";
        let due = [full_up, full_up, full_up, "done", "done", "TurnLimit 2 3"];
        assert_eq!(*told.lock().unwrap(), due);
        let mut driver = bus.attach(full).await?;
        house::take_all(&mut driver, 4).await?;
        bus.quiet().await?;
        Ledger::read(&bus).await.check_done("drained");
        bus.shut_down().await
    })
    .unwrap();
}

/// Blocks until it is let go.
struct Blocks(Arc<Mutex<Option<mpsc::Receiver<()>>>>);

impl Agent for Blocks {
    fn step<'a>(&'a mut self, turn: &'a mut Turn) -> StepFuture<'a> {
        let held = self.0.lock().unwrap().take();
        Box::pin(async move {
            turn.blocking(move || held.map(|held| held.recv())).await?;
            Ok(Next::End)
        })
    }
}

#[test]
fn f10_work_that_blocks_for_ever_does_not_hold_up_the_stop() {
    house::run(async {
        let (release, held) = mpsc::channel();
        let held = Arc::new(Mutex::new(Some(held)));
        let factory = move |_: Seed| -> Result<Box<dyn Agent>, AgentError> {
            Ok(Box::new(Blocks(Arc::clone(&held))))
        };
        let mut config = house::config(Durability::Sync);
        config.life.stop_max = Duration::from_millis(10);
        let disk = SimDisk::new();
        let (builder, _) = house::builder(Arc::new(disk.clone()), config.clone());
        let bus = builder.agent("blocks", factory).open().await?;
        let [lead, worker] = house::circle(&bus, [("lead", "sink"), ("worker", "blocks")]).await?;
        bus.send(lead, Draft::text(worker, "block")).await?;
        while bus.inspect(worker).await?.taken == 0 {
            tokio::task::yield_now().await;
        }
        bus.shut_down().await?;
        // It is not over: who has it still holds the other end.
        assert!(release.send(()).is_ok());
        Ok::<_, Error>(())
    })
    .unwrap();
}
