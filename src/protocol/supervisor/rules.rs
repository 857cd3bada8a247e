//! What the supervisor answers: pure functions of the graph.
//!
//! **Boundary**: nothing changes here; a rule gives the events to record, or a refusal.

use std::collections::HashSet;

use super::event::{Event, Origin};
use super::graph::{Graph, Phase, Record};
use crate::error::{Code, Refused};
use crate::protocol::id::{Label, SessionId};
use crate::protocol::session::{BodySpec, Created, Verdict};

impl Graph {
    /// Takes an id and a label.
    ///
    /// # Errors
    /// `ID_TAKEN`, `NAME_TAKEN`, `SESSION_LIMIT`.
    pub fn provision(&self, created: Created, sessions_max: usize) -> Result<Vec<Event>, Refused> {
        if self.sessions.contains_key(&created.id) || created.id == SessionId::SUPERVISOR {
            return Err(Refused::new(Code::IdTaken, "this id was given before; take a new one"));
        }
        if self.labels.contains_key(&created.label) {
            let text = "this label was given before; labels are never used again";
            return Err(Refused::new(Code::NameTaken, text));
        }
        if self.sessions.len() >= sessions_max {
            let (limit, current) = (sessions_max as u64, self.sessions.len() as u64 + 1);
            let text = "the bus holds as many sessions as its limit allows";
            return Err(Refused::over(Code::SessionLimit, text, limit, current));
        }
        Ok(vec![Event::Provisioned(created)])
    }

    /// Lets two sessions talk. Nothing to record when they already may by an edge.
    ///
    /// # Errors
    /// `NOT_FOUND` for an end that does not live; `INVALID_ARGUMENT` for a session with itself, or
    /// for two workspaces.
    pub fn connect(&self, one: SessionId, other: SessionId) -> Result<Vec<Event>, Refused> {
        let (first, second) = (self.living(one)?, self.living(other)?);
        if one == other {
            let text = "a session cannot be connected with itself";
            return Err(Refused::new(Code::InvalidArgument, text));
        }
        if !share_workspace(first, second) {
            return Err(two_workspaces());
        }
        let (one, other) = (one.min(other), one.max(other));
        let known = self.edges.contains(&(one, other));
        Ok(if known { Vec::new() } else { vec![Event::Connected { one, other }] })
    }

    /// Adds sessions to a group; nothing to record for those who are in it. An event names
    /// `per_event` of them at most.
    ///
    /// # Errors
    /// `NOT_FOUND` for a member that does not live; `INVALID_ARGUMENT` for two workspaces.
    pub fn group(
        &self,
        group: &Label,
        members: &[SessionId],
        per_event: usize,
    ) -> Result<Vec<Event>, Refused> {
        let known = self.groups.get(group);
        let mut fellow = known.and_then(|known| known.first()).and_then(|id| self.sessions.get(id));
        let mut fresh = Vec::new();
        let mut seen = HashSet::new();
        for id in members {
            let record = self.living(*id)?;
            if fellow.is_some_and(|fellow| !share_workspace(fellow, record)) {
                return Err(two_workspaces());
            }
            fellow = Some(record);
            if !record.groups.contains(group) && seen.insert(*id) {
                fresh.push(*id);
            }
        }
        let grouped =
            |some: &[SessionId]| Event::Grouped { group: group.clone(), members: some.to_vec() };
        Ok(fresh.chunks(per_event.max(1)).map(grouped).collect())
    }

    /// Whether `from` may send to `to`: edge and equal workspace, and both live.
    ///
    /// # Errors
    /// `SELF_MESSAGE`; else `NOT_FOUND`, whatever is missing.
    pub fn route(&self, from: SessionId, to: SessionId) -> Result<(), Refused> {
        let sender = self.living(from)?;
        if from == to {
            return Err(Refused::new(Code::SelfMessage, "a session cannot send to itself"));
        }
        let target = self.living(to)?;
        if !share_workspace(sender, target) || !self.linked((from, sender), to) {
            return Err(Refused::not_found());
        }
        Ok(())
    }

    /// What becomes of mail that is already queued.
    pub fn verdict(&self, to: SessionId) -> Verdict {
        match self.sessions.get(&to).map(|record| record.phase) {
            Some(Phase::Active | Phase::Provisioning) => Verdict::Allowed,
            Some(Phase::Failed | Phase::Closing | Phase::Closed) | None => Verdict::Closed,
        }
    }

    /// A living session that `from` may talk to, by label.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn find(&self, from: SessionId, label: &Label) -> Result<SessionId, Refused> {
        let id = self.labels.get(label).copied().ok_or_else(Refused::not_found)?;
        if id != from {
            self.route(from, id)?;
        }
        Ok(id)
    }

    /// Every living session that `from` may send to, in order of their ids.
    pub fn peers(&self, from: SessionId) -> Vec<(SessionId, Label)> {
        let may_reach = |id: &SessionId| self.route(from, *id).is_ok();
        let named = |(id, record): (&SessionId, &Record)| (*id, record.created.label.clone());
        self.sessions.iter().filter(|(id, _)| may_reach(id)).map(named).collect()
    }

    /// Ends a session; nothing to record when that has begun.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn close(&self, id: SessionId) -> Result<Vec<Event>, Refused> {
        let record = self.sessions.get(&id).ok_or_else(Refused::not_found)?;
        match record.phase {
            Phase::Active | Phase::Failed => Ok(vec![Event::Closing { id }]),
            Phase::Closing | Phase::Closed => Ok(Vec::new()),
            Phase::Provisioning => Err(Refused::not_found()),
        }
    }

    /// Gives the directory to a trace or scenario, once; nothing to record when it has it.
    ///
    /// # Errors
    /// `WRONG_ORIGIN` when the directory belongs to another.
    pub fn dedicate(&self, origin: Origin) -> Result<Vec<Event>, Refused> {
        match &self.origin {
            None if self.sessions.is_empty() => Ok(vec![Event::Dedicated(origin)]),
            Some(known) if *known == origin => Ok(Vec::new()),
            None | Some(_) => Err(Refused::new(
                Code::WrongOrigin,
                "the data directory belongs to another trace or scenario; take an empty one",
            )),
        }
    }

    fn living(&self, id: SessionId) -> Result<&Record, Refused> {
        let record = self.sessions.get(&id).filter(|record| record.phase == Phase::Active);
        record.ok_or_else(Refused::not_found)
    }

    fn linked(&self, (from, sender): (SessionId, &Record), to: SessionId) -> bool {
        self.edges.contains(&(from.min(to), from.max(to)))
            || sender
                .groups
                .iter()
                .any(|group| self.groups.get(group).is_some_and(|members| members.contains(&to)))
    }
}

/// Bytes of a factory's name.
const FACTORY_NAME_MAX: usize = 64;
/// Characters of a failure's reason that are kept.
const REASON_MAX: usize = 500;
/// Members that one event names at most, and the bytes of each and of the rest of the event.
const MEMBERS_MAX: usize = 500;
const MEMBER_BYTES: usize = 40;
const GROUPED_BYTES: usize = 256;

/// Whether a session can be made with this body: `known` tells which factories there are.
///
/// # Errors
/// `INVALID_ARGUMENT`.
pub fn check_body(
    body: &BodySpec,
    settings_max: usize,
    known: impl Fn(&str) -> bool,
) -> Result<(), Refused> {
    let BodySpec::Agent { name, settings } = body else { return Ok(()) };
    let over = |text, limit: usize, current: usize| {
        Err(Refused::over(Code::InvalidArgument, text, limit as u64, current as u64))
    };
    if name.len() > FACTORY_NAME_MAX {
        return over("the factory's name is too long", FACTORY_NAME_MAX, name.len());
    }
    let bytes = settings.as_ref().map_or(0, |settings| settings.0.get().len());
    if bytes > settings_max {
        return over("the agent's settings are too large", settings_max, bytes);
    }
    if !known(name) {
        return Err(Refused::new(Code::InvalidArgument, "no factory has this name"));
    }
    Ok(())
}

/// Members that one event may name, so that it fits a frame of so many bytes.
pub fn members_per_event(frame_max: usize) -> usize {
    (frame_max.saturating_sub(GROUPED_BYTES) / MEMBER_BYTES).clamp(1, MEMBERS_MAX)
}

/// A failure's reason, cut so that its event fits a frame of so many bytes however it is escaped.
pub fn reason(text: &str, frame_max: usize) -> String {
    text.chars().take(REASON_MAX.min(frame_max / 8)).collect()
}

/// Exact equality; a session without a workspace sees only itself.
fn share_workspace(one: &Record, other: &Record) -> bool {
    one.created.workspace.is_some() && one.created.workspace == other.created.workspace
}

fn two_workspaces() -> Refused {
    Refused::new(Code::InvalidArgument, "sessions that are to talk must share a workspace")
}
