//! The graph as the fold of the supervisor's stream.
//!
//! **Invariant**: an event is checked whole before anything is touched; an id or a label that was
//! ever taken stays taken.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::event::{Event, Origin};
use crate::protocol::id::{Label, SessionId};
use crate::protocol::session::{Created, Illegal, Status};

/// The fold of the supervisor's events.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// What the directory is for.
    pub origin: Option<Origin>,
    /// Every session there ever was.
    pub sessions: BTreeMap<SessionId, Record>,
    /// Whose each label is.
    pub labels: BTreeMap<Label, SessionId>,
    /// Pairs that may talk, the lower id first.
    pub edges: BTreeSet<(SessionId, SessionId)>,
    /// Members by group.
    pub groups: BTreeMap<Label, BTreeSet<SessionId>>,
}

/// What is known of a session here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// How it was made.
    pub created: Created,
    /// How far its life has come.
    pub phase: Phase,
    /// The groups it is in.
    pub groups: BTreeSet<Label>,
}

impl Record {
    /// What a session is doing: as its actor or its journal says, but for one that has failed.
    pub fn status(&self, seen: Status) -> Status {
        if self.phase == Phase::Failed { Status::Failed } else { seen }
    }
}

/// How far a session's life has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Its id and label are taken, its journal may not exist yet.
    Provisioning,
    /// It lives.
    Active,
    /// It could not be made, or failed too often.
    Failed,
    /// It is to end.
    Closing,
    /// It has ended.
    Closed,
}

fn check(legal: bool, otherwise: &'static str) -> Result<(), Illegal> {
    if legal { Ok(()) } else { Err(Illegal(otherwise)) }
}

impl Graph {
    /// Applies one event.
    ///
    /// # Errors
    /// [`Illegal`] when the event cannot follow what came before; the graph is unchanged.
    pub fn apply(&mut self, event: &Event) -> Result<(), Illegal> {
        match event {
            Event::Dedicated(origin) => {
                check(self.origin.is_none(), "dedicated twice")?;
                self.origin = Some(origin.clone());
                Ok(())
            }
            Event::Provisioned(created) => self.provisioned(created),
            Event::Activated { id } => {
                self.enter(*id, &[Phase::Provisioning], Phase::Active, "active without being made")
            }
            Event::Failed { id, reason: _ } => {
                let before = [Phase::Provisioning, Phase::Active];
                self.enter(*id, &before, Phase::Failed, "failed after its end")
            }
            Event::Connected { one, other } => {
                check(one < other, "an edge's lower end comes first")?;
                check(self.exist(&[*one, *other]), "an edge to nobody")?;
                check(self.edges.insert((*one, *other)), "connected twice")
            }
            Event::Grouped { group, members } => self.grouped(group, members),
            Event::Closing { id } => {
                let before = [Phase::Active, Phase::Failed];
                self.enter(*id, &before, Phase::Closing, "closing what does not live")
            }
            Event::Closed { id } => {
                self.enter(*id, &[Phase::Closing], Phase::Closed, "closed without closing")
            }
        }
    }

    fn provisioned(&mut self, created: &Created) -> Result<(), Illegal> {
        check(created.id != SessionId::SUPERVISOR, "the supervisor's id was given away")?;
        check(!self.sessions.contains_key(&created.id), "an id was given twice")?;
        check(!self.labels.contains_key(&created.label), "a label was given twice")?;
        self.labels.insert(created.label.clone(), created.id);
        let record = Record {
            created: created.clone(),
            phase: Phase::Provisioning,
            groups: BTreeSet::new(),
        };
        self.sessions.insert(created.id, record);
        Ok(())
    }

    fn enter(
        &mut self,
        id: SessionId,
        before: &[Phase],
        phase: Phase,
        otherwise: &'static str,
    ) -> Result<(), Illegal> {
        let record = self.sessions.get_mut(&id).ok_or(Illegal(otherwise))?;
        check(before.contains(&record.phase), otherwise)?;
        record.phase = phase;
        Ok(())
    }

    fn grouped(&mut self, group: &Label, members: &[SessionId]) -> Result<(), Illegal> {
        check(self.exist(members), "a group of nobody")?;
        for id in members {
            if let Some(record) = self.sessions.get_mut(id) {
                record.groups.insert(group.clone());
            }
        }
        self.groups.entry(group.clone()).or_default().extend(members);
        Ok(())
    }

    fn exist(&self, ids: &[SessionId]) -> bool {
        ids.iter().all(|id| self.sessions.contains_key(id))
    }
}
