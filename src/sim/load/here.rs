//! A load in one process: clients, clock and bus.
//!
//! **Invariant**: the clock starts when every session is made and all is quiet.

use std::sync::Arc;

use super::clients::{self, Ear, Slots};
use super::count;
use super::crew;
use super::desk::{Desk, Outlet};
use super::machine::Usage;
use super::plan::Plan;
use super::run::{self, Left, LoadError, Pacing};
use crate::agents;
use crate::bus::Bus;
use crate::config::Durability;
use crate::sim::runner::{self, RunError, Stage};

/// Runs a load; none where it was stopped.
pub(super) async fn run(plan: &Plan, stage: Stage, name: &str) -> Result<Option<Left>, LoadError> {
    let Stage { data, config, mut stop, tell } = stage;
    let slots = Arc::new(Slots::new(plan.sessions));
    let desk = run::desk(plan, Outlet::Here(Arc::clone(&slots)))?;
    let ear = Ear::Here(Arc::clone(&desk));
    let mut builder = agents::install(Bus::builder()).observe(Arc::new(ear.clone()));
    builder = builder.dedicate(crew::origin(name)).config(config);
    if plan.durability != Durability::Memory {
        builder = builder.data_dir(data);
    }
    let bus = builder.open().await?;
    let loaded = loaded(plan, (&bus, &desk), (&slots, &ear), tell.as_ref());
    let left = tokio::select! {
        biased;
        () = runner::stopped(&mut stop) => Ok(None),
        left = loaded => left.map(Some),
    };
    slots.close();
    let shut = bus.shut_down().await;
    let left = left?;
    shut?;
    Ok(left)
}

async fn loaded(
    plan: &Plan,
    (bus, desk): (&Bus, &Arc<Desk>),
    (slots, ear): (&Arc<Slots>, &Ear),
    tell: &dyn Fn(runner::Told),
) -> Result<Left, LoadError> {
    let ids = crew::make(bus, plan).await?;
    bus.quiet().await?;
    let process = std::process::id();
    let before = Usage::of(process);
    let mut clients = clients::start((bus, &ids), plan, slots, ear);
    let pacing = Pacing::start(plan, desk)?;
    let mut at_end = None;
    let sent = async {
        run::all_sent(desk).await;
        bus.quiet().await?;
        at_end = Usage::of(process);
        Ok::<(), RunError>(())
    };
    runner::told(sent, || {
        tell(run::told(plan, desk, pacing.count));
        runner::able(bus)
    })
    .await?;
    slots.close();
    while clients.join_next().await.is_some() {}
    let usage = at_end.zip(before).map(|(after, before)| Usage {
        cpu_us: after.cpu_us.saturating_sub(before.cpu_us),
        ..after
    });
    let memory_bytes = (plan.durability == Durability::Memory).then(|| bus.journal_bytes());
    let totals = count::totals(bus, &ids).await?;
    Ok(Left { desk: Arc::clone(desk), totals, usage, restarts: Vec::new(), memory_bytes })
}
