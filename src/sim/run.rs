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
use super::seats::{Seat, Seated, Seats};
use crate::agents;
use crate::bus::{Bus, Create, Origin};
use crate::error::{Error, Refused};
use crate::protocol::session::{AgentState, BodySpec};
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
        let id = |label: &Label| seated(&sessions, label).map(|seated| seated.id);
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
    /// The session of each label; those that are missing are made, targets before their senders,
    /// whose settings name them.
    async fn made(&self, bus: &Bus, starter: &Cast) -> Result<HashMap<Label, Seated>, Error> {
        let seats = Seats::read(bus).await?;
        let mut sessions = HashMap::new();
        let mut left: Vec<&Cast> = self.scenario.agents.iter().chain([starter]).collect();
        while !left.is_empty() {
            let is_ready = |cast: &&Cast| cast.role.targets().all(|to| sessions.contains_key(to));
            let (ready, later): (Vec<_>, Vec<_>) = left.into_iter().partition(is_ready);
            if ready.is_empty() {
                return Err(Refused::not_found().into());
            }
            let mut missing = Vec::new();
            let mut found = Vec::new();
            for cast in ready {
                match seats.of(&cast.label)? {
                    Seat::Taken(seated) => found.push((cast.label.clone(), seated)),
                    Seat::Free(label) => {
                        let workspace = Some(self.scenario.workspace.clone());
                        let body = body(&cast.role, &sessions)?;
                        missing.push((cast.label.clone(), Create { label, workspace, body }));
                    }
                }
            }
            let made = crowd::for_each(missing, |(wanted, create)| {
                let (bus, label) = (bus.clone(), create.label.clone());
                async move { Ok((wanted, Seated { id: bus.create(create).await?, label })) }
            });
            sessions.extend(found.into_iter().chain(made.await?));
            left = later;
        }
        Ok(sessions)
    }

    async fn link(&self, bus: &Bus, sessions: &HashMap<Label, Seated>) -> Result<(), Error> {
        let id = |label: &Label| seated(sessions, label).map(|seated| seated.id);
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

fn seated<'a>(sessions: &'a HashMap<Label, Seated>, label: &Label) -> Result<&'a Seated, Refused> {
    sessions.get(label).ok_or_else(Refused::not_found)
}

fn body(role: &Role, sessions: &HashMap<Label, Seated>) -> Result<BodySpec, Error> {
    let to = role.targets().map(|label| Ok(seated(sessions, label)?.label.clone()));
    let to: Vec<Label> = to.collect::<Result<_, Refused>>()?;
    let name = match role {
        Role::Echo => agents::ECHO,
        Role::Sink => agents::SINK,
        Role::Relay { .. } => agents::RELAY,
        Role::Source { .. } => agents::SOURCE,
    };
    Ok(BodySpec::Agent { name: name.to_owned(), settings: settings(role, to)? })
}

/// What the agent is made with, if anything; it sends to the sessions with these labels.
pub(super) fn settings(role: &Role, to: Vec<Label>) -> Result<Option<AgentState>, Error> {
    let settings = match role {
        Role::Echo | Role::Sink => return Ok(None),
        Role::Relay { .. } => agents::kept(&agents::RelaySettings { to }),
        Role::Source { messages, bytes, burst, .. } => {
            let (count, size, burst) = (*messages, *bytes, *burst);
            agents::kept(&agents::SourceSettings { to, count, size, burst })
        }
    };
    settings.map(Some)
}
