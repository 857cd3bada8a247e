//! Who thinks inside a session, as its actor sees it: an agent at work, or a driver outside.
//!
//! **Invariant**: an agent that failed is made anew from its journaled state; room reserved for a
//! turn's staged messages is used when the end of the turn is decided, and given back otherwise; a
//! turn does not end while the machine owes it an answer to what has arrived.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use super::agent::{Agent, AgentError, Factory, Next, Seed};
use super::control::Reply;
use super::driver::DriverBody;
use super::outgoing::answer;
use super::request::{Fallen, Request};
use super::resident::Resident;
use super::run::{self, Run, Stepped};
use super::turn::{Opening, Turn};
use crate::error::{Code, Ended, Fault, Refused};
use crate::protocol::session::state::Item;
use crate::protocol::session::{BodySpec, End, Event, Failure, Input, TurnOutcome};

/// Who thinks inside a session.
pub(super) enum Body {
    /// Nobody: the factory is missing, or the session has failed.
    Absent,
    Agent(AgentBody),
    Driver(Box<DriverBody>),
}

/// An agent and where it stands.
pub(super) struct AgentBody {
    factory: Arc<dyn Factory>,
    place: Place,
    /// Calls of [`Turn::arrived`] that the machine has not answered, given up or not.
    asking: VecDeque<Reply<()>>,
}

enum Place {
    Idle(Box<dyn Agent>),
    Stepping(Run),
    /// The step is done, and something that it asked for may still come.
    Settling(Stepped),
    /// Between two steps, or until the end of the turn is on disk.
    Parked(Box<dyn Agent>, Box<Turn>),
    Gone,
}

impl Body {
    /// Whether a turn is open in it.
    pub(super) fn is_busy(&self) -> bool {
        match self {
            Body::Absent => false,
            Body::Agent(agent) => !matches!(agent.place, Place::Idle(_) | Place::Gone),
            Body::Driver(driver) => driver.is_busy(),
        }
    }

    /// Whether somebody outside holds a handle.
    pub(super) fn is_attached(&self) -> bool {
        match self {
            Body::Absent | Body::Agent(_) => false,
            Body::Driver(driver) => driver.is_attached(),
        }
    }
}

impl Resident {
    /// Gives the session its body.
    pub(super) fn embody(&mut self) {
        let created = self.machine.state().created.clone();
        let spec = created.filter(|_| !self.cell.is_failed()).map(|created| created.body.clone());
        self.body = match spec {
            None => Body::Absent,
            Some(BodySpec::Driver) => Body::Driver(Box::new(DriverBody::new(self.load.number))),
            Some(BodySpec::Agent { name, .. }) => {
                match self.local.shared.factories.get(&name).map(Arc::clone) {
                    Some(factory) => self.with_agent(factory),
                    None => {
                        let error = AgentError::new("NO_FACTORY", "no factory has this name");
                        self.without_agent(&error)
                    }
                }
            }
        };
    }

    fn with_agent(&self, factory: Arc<dyn Factory>) -> Body {
        match self.make_agent(&*factory) {
            Ok(agent) => Body::Agent(AgentBody {
                factory,
                place: Place::Idle(agent),
                asking: VecDeque::new(),
            }),
            Err(error) => self.without_agent(&error),
        }
    }

    /// The session keeps its mail and takes no turn.
    fn without_agent(&self, error: &AgentError) -> Body {
        tracing::error!(session = %self.machine.label(), %error, "the agent cannot be made");
        let AgentError { code, message } = error.clone();
        let why = Fallen::Unmade { code, message };
        self.local.shared.supervisor.ask(Request::Fallen { id: self.cell.id(), why });
        Body::Absent
    }

    fn make_agent(&self, factory: &dyn Factory) -> Result<Box<dyn Agent>, AgentError> {
        let state = self.machine.state();
        let settings = state.created.as_ref().and_then(|created| match &created.body {
            BodySpec::Agent { settings, .. } => settings.clone(),
            BodySpec::Driver => None,
        });
        let seed = Seed {
            id: self.cell.id(),
            label: self.machine.label().clone(),
            settings,
            state: state.agent.clone(),
        };
        catch_unwind(AssertUnwindSafe(|| factory.make(seed)))
            .unwrap_or_else(|panic| Err(run::panicked(&*panic)))
    }

    /// Nobody thinks in the session from now on. The room of what its turn has staged is given
    /// back with it: an end that waits for room in the journal is not decided any more.
    pub(super) fn let_body_go(&mut self) {
        let body = std::mem::replace(&mut self.body, Body::Absent);
        // A panic in an agent's drop must not end the actor.
        drop(catch_unwind(AssertUnwindSafe(|| drop(body))));
        let stages = |input: &Input| matches!(input, Input::End(end) if !end.sends.is_empty());
        self.batch.retain(|input| !stages(input));
    }

    /// The body is there: it can take a turn.
    pub(super) fn body_starts(&mut self) {
        if let Body::Agent(_) = self.body {
            self.batch.push_back(Input::Ready);
        }
    }

    /// The bus or the session closes: who waits outside is told.
    pub(super) fn body_stops(&mut self) {
        if let Body::Driver(driver) = &mut self.body {
            driver.stop();
        }
    }

    /// Nothing is written any more: who waits outside for that is told.
    pub(super) fn body_faults(&mut self, fault: &Fault) {
        if let Body::Driver(driver) = &mut self.body {
            driver.give_up(fault);
        }
    }

    pub(super) fn body_begins(&mut self, turn: u64, attempt: u32, items: Vec<Item>) {
        match &mut self.body {
            Body::Absent => {}
            Body::Driver(driver) => driver.begin(turn, attempt, items),
            Body::Agent(body) => {
                let Place::Idle(agent) = std::mem::replace(&mut body.place, Place::Gone) else {
                    return;
                };
                let opening = Opening { number: turn, attempt, items };
                let turn = Turn::new(
                    &self.local.shared,
                    &self.cell,
                    (self.machine.label().clone(), opening),
                    Rc::clone(&self.outgoing),
                );
                body.place = Place::Stepping(run::step(agent, Box::new(turn)));
            }
        }
    }

    /// The agent asks, within a step, what has arrived.
    pub(super) fn body_asks(&mut self, reply: Reply<()>) {
        match &mut self.body {
            Body::Agent(AgentBody { place: Place::Stepping(run), asking, .. }) => {
                asking.push_back(reply);
                self.batch.push_back(Input::Steer { turn: run.turn });
            }
            Body::Absent | Body::Driver(_) | Body::Agent(_) => {
                answer(reply, Err(Ended::Closed.into()));
            }
        }
    }

    /// What has arrived since: for the step that asked, or for the next step.
    pub(super) fn body_steers(&mut self, items: Vec<Item>) {
        let Body::Agent(body) = &mut self.body else { return };
        match std::mem::replace(&mut body.place, Place::Gone) {
            Place::Stepping(run) => {
                run.arrivals.borrow_mut().extend(items);
                body.place = Place::Stepping(run);
                if let Some(reply) = body.asking.pop_front() {
                    answer(reply, Ok(()));
                }
            }
            Place::Settling(stepped) => {
                stepped.turn.arrivals().borrow_mut().extend(items);
                // Whoever asked has given up.
                drop(body.asking.pop_front());
                self.stepped(stepped);
            }
            Place::Parked(agent, mut turn) => {
                turn.go_on(items);
                body.place = Place::Stepping(run::step(agent, turn));
            }
            place @ (Place::Idle(_) | Place::Gone) => body.place = place,
        }
    }

    /// Where the end of the turn is decided, the machine answers for the staged messages' room.
    pub(super) fn body_committed(&mut self, events: &[Event]) {
        let completed = events.iter().find_map(|event| match event {
            Event::TurnEnded { turn, outcome: TurnOutcome::Completed, .. } => Some(*turn),
            _ => None,
        });
        let Some(completed) = completed else { return };
        match &mut self.body {
            Body::Agent(AgentBody { place: Place::Parked(_, turn), .. }) => turn.keep_staged(),
            Body::Driver(driver) => driver.complete(completed),
            Body::Absent | Body::Agent(_) => {}
        }
    }

    /// A turn is over, by the agent's doing or without it.
    pub(super) fn body_ends(&mut self, turn: u64) {
        match &mut self.body {
            Body::Absent => {}
            Body::Driver(driver) => driver.end(turn),
            Body::Agent(body) => match std::mem::replace(&mut body.place, Place::Gone) {
                Place::Parked(agent, open) | Place::Settling(Stepped { agent, turn: open, .. })
                    if open.number() == turn =>
                {
                    body.place = Place::Idle(agent);
                }
                Place::Stepping(run) if run.turn == turn => {
                    // Closed from outside: the step is given up, and with it the agent.
                    drop(run);
                }
                place => body.place = place,
            },
        }
    }

    /// Polls the step that runs. Returns whether it is done.
    pub(super) fn poll_body(&mut self, task: &mut Context<'_>) -> bool {
        let Body::Agent(body) = &mut self.body else { return false };
        let Place::Stepping(run) = &mut body.place else { return false };
        let since = Instant::now();
        let polled = run.future.as_mut().poll(task);
        let held = since.elapsed();
        if held > self.local.shared.config.life.stall_warn {
            let held_ms = held.as_millis();
            tracing::warn!(session = %self.machine.label(), %held_ms, "a step held its arbiter");
        }
        let Poll::Ready(stepped) = polled else { return false };
        body.place = Place::Gone;
        self.stepped(stepped);
        true
    }

    fn stepped(&mut self, stepped: Stepped) {
        if let Body::Agent(body) = &mut self.body
            && !body.asking.is_empty()
            && stepped.result.is_ok()
        {
            body.place = Place::Settling(stepped);
            return;
        }
        let Stepped { agent, mut turn, result } = stepped;
        let ended = match result {
            Err(error) => Err(error),
            Ok(_) if turn.has_unseen() => {
                turn.go_on(Vec::new());
                return self.park_stepping(agent, turn);
            }
            Ok(Next::Step) => {
                self.batch.push_back(Input::Steer { turn: turn.number() });
                return self.park(agent, turn);
            }
            Ok(Next::End) => self.end_of(&*agent, &turn, false),
            Ok(Next::Again) => self.end_of(&*agent, &turn, true),
        };
        match ended {
            Ok(end) => {
                let held = self.wish(&turn, end.again);
                self.batch.push_back(Input::HoldWish { held });
                self.batch.push_back(Input::End(end));
                self.park(agent, turn);
            }
            Err(error) => {
                let number = turn.number();
                drop(turn);
                // A panic in an agent's drop must not end the actor.
                drop(catch_unwind(AssertUnwindSafe(|| drop(agent))));
                self.body_failed(number, error);
            }
        }
    }

    fn park(&mut self, agent: Box<dyn Agent>, turn: Box<Turn>) {
        if let Body::Agent(body) = &mut self.body {
            body.place = Place::Parked(agent, turn);
        }
    }

    fn park_stepping(&mut self, agent: Box<dyn Agent>, turn: Box<Turn>) {
        if let Body::Agent(body) = &mut self.body {
            body.place = Place::Stepping(run::step(agent, turn));
        }
        self.cell.wake();
    }

    fn end_of(&self, agent: &dyn Agent, turn: &Turn, again: bool) -> Result<End, AgentError> {
        let state = catch_unwind(AssertUnwindSafe(|| agent.state()))
            .map_err(|panic| run::panicked(&*panic))?;
        let (size, config) =
            (state.as_ref().map_or(0, |state| state.0.get().len()), &self.local.shared.config);
        if size > config.limits.agent_state_max {
            let text = format!("{size} bytes, and {} allowed", config.limits.agent_state_max);
            return Err(AgentError::new("AGENT_STATE_TOO_LARGE", text));
        }
        let ready = self.stop_at.is_none();
        let (turn, sends) = (turn.number(), turn.staged());
        let end = End { turn, state, sends, again, ready, firm: false };
        let input = [Input::End(end)];
        let fits = self.machine.fit(&input, config.store.frame_max).bytes <= config.store.frame_max;
        let [Input::End(end)] = input else {
            return Err(AgentError::new("TURN_TOO_LARGE", "the turn is over the largest frame"));
        };
        if fits {
            return Ok(end);
        }
        Err(AgentError::new("TURN_TOO_LARGE", "the turn is over the largest frame"))
    }

    /// Queues for room where the turn was refused for want of it; whether the wish has to wait.
    fn wish(&mut self, turn: &Turn, again: bool) -> bool {
        let mut outgoing = self.outgoing.borrow_mut();
        outgoing.give_back_grants();
        if !again || turn.refused().is_empty() {
            return false;
        }
        let mut held = true;
        for target in turn.refused() {
            held &= outgoing.wish(*target);
        }
        held
    }

    fn body_failed(&mut self, turn: u64, error: AgentError) {
        tracing::warn!(session = %self.machine.label(), code = %error.code, "a turn failed");
        self.outgoing.borrow_mut().give_back_grants();
        let failure = Failure::from(error);
        self.batch.push_back(Input::Fail { turn, failure });
        let Body::Agent(body) = &self.body else { return };
        let factory = Arc::clone(&body.factory);
        self.body = self.with_agent(factory);
        if self.stop_at.is_none() {
            self.body_starts();
        }
    }
}

/// The answer to a handle that is not the one that drives.
pub(super) fn stale() -> Refused {
    Refused::new(Code::StaleCaller, "the session is driven by another handle")
}
