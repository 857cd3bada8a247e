//! Runs a scenario until all is quiet.
//!
//! **Invariant**: each source is started once in a data directory's life: the start is message 1
//! from the starter to it, and the starter's journal tells whether it was sent.

use std::collections::HashMap;
use std::sync::Arc;

use super::crowd;
use super::meter::Meter;
use super::runner::{self, End, Play, RunError, Stage};
use super::scenario::{Cast, Role, STARTER, Scenario};
use crate::agents;
use crate::bus::{Bus, Create, Origin};
use crate::error::{Error, Refused};
use crate::protocol::session::BodySpec;
use crate::protocol::{Draft, Label, SessionId};

/// Runs a scenario until all is quiet.
///
/// # Errors
/// What the bus says: `WRONG_ORIGIN` for a data directory of something else, faults of the journal.
///
/// # Cancel safety
/// Dropped, it leaves the data directory as a kill would: the next run goes on there.
pub async fn run(scenario: Scenario, mut stage: Stage) -> Result<End, RunError> {
    scenario.limits.raise(&mut stage.config);
    let meter = Arc::new(Meter::of_envelopes());
    runner::run(stage, meter, Plan { scenario, unstarted: Vec::new() }).await
}

struct Plan {
    scenario: Scenario,
    /// The starter with each source that it has not started yet.
    unstarted: Vec<(SessionId, SessionId)>,
}

impl Play for Plan {
    fn origin(&self) -> Origin {
        Origin { kind: "scenario".to_owned(), hash: self.scenario.hash() }
    }

    async fn prepare(&mut self, bus: &Bus) -> Result<(Option<u64>, u64), RunError> {
        let starter = Cast { label: Label::new(STARTER)?, role: Role::Sink };
        let sessions = self.made(bus, &starter).await?;
        let id = |label: &Label| sessions.get(label).copied().ok_or(Refused::not_found());
        let starter = id(&starter.label)?;
        let started: Vec<SessionId> =
            bus.inspect(starter).await?.numbers.into_iter().map(|(target, _)| target).collect();
        for cast in &self.scenario.agents {
            let source = id(&cast.label)?;
            if matches!(cast.role, Role::Source { .. }) && !started.contains(&source) {
                self.unstarted.push((starter, source));
            }
        }
        if !self.unstarted.is_empty() {
            self.link(bus, &sessions).await?;
        }
        Ok((None, started.len() as u64))
    }

    async fn send(&mut self, bus: &Bus) -> Result<(), RunError> {
        for (starter, source) in self.unstarted.drain(..) {
            bus.send_when_room(starter, Draft::text(source, "start")).await?;
        }
        Ok(())
    }
}

impl Plan {
    /// The session of each label; those that are missing are made.
    async fn made(&self, bus: &Bus, starter: &Cast) -> Result<HashMap<Label, SessionId>, Error> {
        let listed = bus.list().await?;
        let mut sessions: HashMap<Label, SessionId> =
            listed.into_iter().map(|listed| (listed.label, listed.id)).collect();
        let mut creates = Vec::new();
        for cast in self.scenario.agents.iter().chain([starter]) {
            if !sessions.contains_key(&cast.label) {
                let (label, workspace) = (cast.label.clone(), self.scenario.workspace.clone());
                creates.push(Create { label, workspace: Some(workspace), body: body(&cast.role)? });
            }
        }
        let made = crowd::for_each(creates, |create| {
            let (bus, label) = (bus.clone(), create.label.clone());
            async move { Ok((label, bus.create(create).await?)) }
        });
        sessions.extend(made.await?);
        Ok(sessions)
    }

    async fn link(&self, bus: &Bus, sessions: &HashMap<Label, SessionId>) -> Result<(), Error> {
        let id = |label: &Label| sessions.get(label).copied().ok_or(Refused::not_found());
        let mut pairs = self.unstarted.clone();
        for (one, other) in &self.scenario.pairs {
            pairs.push((id(one)?, id(other)?));
        }
        let connected = crowd::for_each(pairs, |(one, other)| {
            let bus = bus.clone();
            async move { bus.connect(one, other).await }
        });
        connected.await?;
        for (name, members) in &self.scenario.groups {
            let members: Vec<SessionId> = members.iter().map(id).collect::<Result<_, _>>()?;
            bus.group(name, &members).await?;
        }
        Ok(())
    }
}

fn body(role: &Role) -> Result<BodySpec, Error> {
    let agent = |name: &str, settings| BodySpec::Agent { name: name.to_owned(), settings };
    Ok(match role {
        Role::Echo => agent(agents::ECHO, None),
        Role::Sink => agent(agents::SINK, None),
        Role::Relay { to } => {
            let settings = agents::RelaySettings { to: to.clone() };
            agent(agents::RELAY, Some(agents::kept(&settings)?))
        }
        Role::Source { to, messages, bytes, burst } => {
            let settings = agents::SourceSettings {
                to: to.clone(),
                count: *messages,
                size: *bytes,
                burst: *burst,
            };
            agent(agents::SOURCE, Some(agents::kept(&settings)?))
        }
    })
}
