//! The sessions of a load.
//!
//! **Invariant**: client k is the session with the label `ck`; a process that was started again
//! finds the ones that were made before.

use std::collections::HashMap;
use std::sync::Arc;

use crate::agents;
use crate::bus::{Bus, Create, Origin};
use crate::error::{Error, Refused};
use crate::protocol::session::BodySpec;
use crate::protocol::{Label, SessionId, Workspace};
use crate::sim::crowd;

use super::plan::Plan;

/// The workspace of all sessions.
const WORKSPACE: &str = "main";

/// Members that are added to a group at once: their ids fit one frame of the journal.
const MEMBERS: usize = 10_000;

/// What a data directory is for.
pub(super) fn origin(name: &str) -> Origin {
    Origin { kind: "load".to_owned(), hash: name.to_owned() }
}

/// Makes the sessions and lets those talk that are to.
pub(super) async fn make(bus: &Bus, plan: &Plan) -> Result<Arc<[SessionId]>, Error> {
    let workspace = Workspace::new(WORKSPACE)?;
    let made = crowd::for_each(0..plan.sessions, |client| {
        let (bus, workspace) = (bus.clone(), Some(workspace.clone()));
        async move {
            let body = BodySpec::Agent { name: agents::SINK.to_owned(), settings: None };
            let label = label(client)?;
            Ok((client, bus.create(Create { label, workspace, body }).await?))
        }
    });
    let mut made = made.await?;
    made.sort_unstable_by_key(|(client, _)| *client);
    let ids: Vec<SessionId> = made.into_iter().map(|(_, id)| id).collect();
    let groups = plan.pairs.groups(plan.sessions).into_iter().enumerate();
    let groups = groups.filter_map(|(index, range)| Some((index, ids.get(range)?.to_vec())));
    crowd::for_each(groups, |(index, members)| {
        let bus = bus.clone();
        async move {
            let label = Label::new(&format!("group-{index}"))?;
            for members in members.chunks(MEMBERS) {
                bus.group(&label, members).await?;
            }
            Ok(())
        }
    })
    .await?;
    Ok(ids.into())
}

/// Finds the sessions that an earlier process made.
pub(super) async fn find(bus: &Bus, plan: &Plan) -> Result<Option<Arc<[SessionId]>>, Error> {
    let records = bus.list().await?;
    if records.is_empty() {
        return Ok(None);
    }
    let by_label: HashMap<Label, SessionId> =
        records.into_iter().map(|record| (record.created.label, record.created.id)).collect();
    let id = |client| by_label.get(&label(client)?).copied().ok_or_else(Refused::not_found);
    Ok(Some((0..plan.sessions).map(id).collect::<Result<_, Refused>>()?))
}

fn label(client: usize) -> Result<Label, Refused> {
    Label::new(&format!("c{client}"))
}
