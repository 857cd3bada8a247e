//! What an opening does and refuses to do, and what it makes of agents that are not there.

use std::sync::Arc;

use callboard::bus::{Builder, Origin};
use callboard::persist::SimDisk;
use callboard::protocol::{Draft, MessageId, SessionId};
use callboard::{Code, Config, Durability, Error};

use crate::house;
use crate::ledger::Ledger;

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
