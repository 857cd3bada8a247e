//! How fast mail goes round in memory. Not run by default.

use std::sync::Arc;
use std::time::Instant;

use super::agents::{sink, source};
use super::town::Town;
use crate::config::Config;
use crate::protocol::Draft;

#[tokio::test]
#[ignore = "a measurement"]
async fn mail_goes_from_many_sources_to_one_sink_each() {
    let n_pairs = 500;
    let count = 2_000;
    let seen = Arc::default();
    let mut config = Config::default();
    config.limits.pending_max = 256;
    let town = Town::new(config, vec![("source", source(count)), ("sink", sink(&seen, 0))]);
    town.agent("sink", "sink").await;
    let mut sources = Vec::new();
    for index in 0..n_pairs {
        let label = format!("sink-{index}");
        town.agent(&label, "sink").await;
        sources.push(town.agent(&format!("source-{index}"), "source").await);
    }
    let starter = town.driver("starter").await;
    let since = Instant::now();
    for source in &sources {
        starter.send_when_room(Draft::text(*source, "start")).await.unwrap();
    }
    town.shared.quiet().await;
    let progress = town.shared.progress();
    let per_s = progress.handled as f64 / since.elapsed().as_secs_f64();
    println!("{progress:?} in {:?}: {per_s:.0} messages/s", since.elapsed());
    town.shared.shut_down().await;
}
