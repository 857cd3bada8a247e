//! The process that runs the bus for a load whose clock is kept elsewhere, so that it can be
//! killed.
//!
//! **Invariant**: it says that it is ready when nothing is pending, and what each client has in its
//! journal by then; it ends when the other side is gone.

use std::io::{BufReader, stdin, stdout};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::clients::{self, Ear, Slots};
use super::count;
use super::crew;
use super::pipe::{Ask, Assignment, Tell, Tells, read_lines};
use super::run::LoadError;
use crate::agents;
use crate::bus::Bus;
use crate::error::Error;
use crate::protocol::SessionId;
use crate::sim::crowd;
use crate::sim::runner::{self, RunError};

/// Runs the bus that the process on the other side of stdin and stdout asks for. Gives the data
/// directory with an error, where it was told one.
///
/// # Errors
/// What the bus says; a first line that assigns nothing.
pub async fn serve() -> Result<(), (Option<PathBuf>, LoadError)> {
    let (asked, mut asks) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        read_lines(BufReader::new(stdin()), |line| drop(asked.send(line.to_owned())));
    });
    let first = asks.recv().await.unwrap_or_default();
    let assignment: Assignment = serde_json::from_str(&first)
        .map_err(|error| (None, LoadError::System("no load is assigned", error.into())))?;
    let data = assignment.data.clone();
    served(assignment, asks).await.map_err(|error| (Some(data), error))
}

async fn served(
    assignment: Assignment,
    mut asks: tokio::sync::mpsc::UnboundedReceiver<String>,
) -> Result<(), LoadError> {
    let plan = assignment.plan.clone();
    let (tells, writer) = Tells::start(stdout());
    let slots = Arc::new(Slots::new(plan.sessions));
    let ear = Ear::Apart(tells.clone());
    let bus = agents::install(Bus::builder())
        .observe(Arc::new(ear.clone()))
        .dedicate(crew::origin(&assignment.name))
        .config(assignment.options().load_config())
        .data_dir(&assignment.data)
        .open()
        .await?;
    let ids = match crew::find(&bus, &plan).await? {
        Some(ids) => ids,
        None => crew::make(&bus, &plan).await?,
    };
    bus.quiet().await?;
    tell_queued(&bus, &ids, &tells).await?;
    tells.tell(Tell::Ready);
    let clients = clients::start((&bus, &ids), &plan, &slots, &ear);
    let (ended, end) = oneshot::channel();
    let orders = Arc::clone(&slots);
    let listening = tokio::spawn(async move {
        while let Some(line) = asks.recv().await {
            match Ask::read(&line) {
                Some(Ask::Order(order)) => orders.put(order),
                Some(Ask::End) => {
                    ended.send(()).unwrap_or_default();
                    return;
                }
                None => return,
            }
        }
    });
    let all_sent = async {
        // Dropped unsent, it says that the other side is gone.
        if end.await.is_ok() {
            bus.quiet().await?;
        }
        Ok::<(), RunError>(())
    };
    runner::told(all_sent, || runner::able(&bus)).await?;
    listening.abort();
    drop(clients);
    let totals = count::totals(&bus, &ids).await?;
    bus.shut_down().await?;
    tells.tell(Tell::Totals(totals));
    // The last line is written when its thread has ended, in whichever way.
    drop(writer.join());
    Ok(())
}

async fn tell_queued(bus: &Bus, ids: &Arc<[SessionId]>, tells: &Tells) -> Result<(), Error> {
    let clients = (0..).zip(ids.iter().copied());
    let queued = crowd::for_each(clients, |(client, id)| {
        let bus = bus.clone();
        async move { Ok((client, bus.inspect(id).await?.counts.queued)) }
    });
    for (client, count) in queued.await?.into_iter().filter(|(_, count)| *count > 0) {
        tells.tell(Tell::Queued { client, count });
    }
    Ok(())
}
