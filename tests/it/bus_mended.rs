//! What is given up half-way: asks, takes, handles and sends, and what must not come of it.

use std::pin::pin;
use std::sync::{Arc, Mutex};

use callboard::Durability;
use callboard::bus::{Agent, AgentError, Next, Seed, StepFuture, Turn};
use callboard::persist::SimDisk;
use callboard::protocol::Draft;
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
