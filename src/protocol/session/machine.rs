//! The session machine: inputs in, one frame of events and the actions that may follow out.
//!
//! **Invariant**: one step is one frame, both or none; every answer waits for the newest append,
//! also an answer that appended nothing itself; a dispatch carries only what is on disk.
//!
//! The rules themselves stand by subject: `outbox`, `inbox`, `turn`, `report`.

use std::sync::Arc;

use super::event::{Created, DeadReason, Event};
use super::fold::Illegal;
use super::input::{Action, Effects, Input};
use super::live::{Live, Move};
use super::state::State;
use crate::config::Limits;
use crate::protocol::id::{Label, SessionId, Timestamp};

/// The bound on frames where nothing else is said, in bytes: the store's default.
const FRAME_MAX: usize = 4 << 20;

/// One loaded session: its state and what is known only while it is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Machine {
    id: SessionId,
    label: Label,
    pub(super) state: State,
    pub(super) live: Live,
    pub(super) limits: Arc<Limits>,
    pub(super) frame_max: usize,
}

/// What a step has gathered so far.
pub(super) struct Step {
    pub(super) now: Timestamp,
    pub(super) events: Vec<Event>,
    /// To be carried out when the newest append is on disk.
    pub(super) after: Vec<Action>,
    /// To be carried out now.
    pub(super) at_once: Vec<Action>,
    /// Senders that are owed an answer, each with whether their dispatch left a gap.
    pub(super) answers: Vec<(SessionId, bool)>,
}

impl Machine {
    /// A machine for a replayed (or just created) state. Feed [`Input::Resume`] first.
    ///
    /// # Errors
    /// [`Illegal`] for a state without its first event.
    pub fn new(state: State, limits: impl Into<Arc<Limits>>) -> Result<Self, Illegal> {
        let limits = limits.into();
        let created = state.created.as_ref().ok_or(Illegal("no session was created"))?;
        let (id, label) = (created.id, created.label.clone());
        let live = Live::resumed(&state, 0);
        Ok(Machine { id, label, state, live, limits, frame_max: FRAME_MAX })
    }

    /// The same machine with a bound on its frames, in bytes, that is not the default's: what a
    /// close buries and what a report tells goes in pieces that fit.
    #[must_use]
    pub fn within(self, frame_max: usize) -> Self {
        Machine { frame_max, ..self }
    }

    /// A session that is being made: its first frame, and the machine that goes on from it.
    pub fn create(created: Created, limits: impl Into<Arc<Limits>>, load: u64) -> (Self, Effects) {
        let limits = limits.into();
        let (id, label) = (created.id, created.label.clone());
        let created = Arc::new(created);
        let state = State { created: Some(Arc::clone(&created)), ..State::default() };
        let live = Live { load, appended: 1, ..Live::default() };
        let events = vec![Event::Created(created)];
        let effects = Effects { events, ticket: 1, urgent: true, ..Effects::default() };
        (Machine { id, label, state, live, limits, frame_max: FRAME_MAX }, effects)
    }

    /// The session's label.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// The state, as of the newest append: ahead of the disk.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The newest ticket given, and the newest known to be on disk.
    pub fn tickets(&self) -> (u64, u64) {
        (self.live.appended, self.live.flushed)
    }

    /// Whether nothing is left to do and nothing waits for the disk: it may be unloaded.
    pub fn is_quiet(&self) -> bool {
        !self.state.has_pending() && self.live.flushed == self.live.appended
    }

    /// Messages that were numbered and are not known to be on disk, by target: when the load ends
    /// with them unwritten, the room that was reserved for them is to be given back.
    pub fn unproved(&self) -> Vec<(SessionId, u64)> {
        let lanes = self.state.lanes.iter();
        let counts = lanes.map(|(target, lane)| {
            let live = self.live.lanes.get(target);
            let durable = live.map_or(lane.settled, |live| live.durable.max(lane.settled));
            (*target, (lane.next - 1).saturating_sub(durable))
        });
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Everybody who may wait for an answer of this session: whose mail or outcomes it has seen.
    pub fn heard(&self) -> impl Iterator<Item = SessionId> {
        self.state.marks.keys().chain(self.state.noted.keys()).copied()
    }

    /// Gives back the room of lists that have grown and are empty again.
    pub fn slim(&mut self) {
        self.live.deferred.shrink_to_fit();
        self.live.moves.shrink_to_fit();
        self.live.closing.shrink_to_fit();
        self.state.inbox.shrink_to_fit();
    }

    /// Messages of this load that were offered again after they were decided.
    pub fn duplicates(&self) -> u64 {
        self.live.duplicates
    }

    /// Decides a batch of inputs as one transaction. The caller holds room for the frame.
    ///
    /// # Panics
    /// When a decision is illegal by the fold: a bug in the rules.
    pub fn step(&mut self, inputs: impl IntoIterator<Item = Input>, now: Timestamp) -> Effects {
        let mut step = Step {
            now,
            events: Vec::new(),
            after: Vec::new(),
            at_once: Vec::new(),
            answers: Vec::new(),
        };
        let mut may_begin = false;
        for input in inputs {
            may_begin |= input.may_begin_turn();
            self.input(&mut step, input);
        }
        if may_begin {
            self.begin_turn(&mut step);
        }
        self.answer_senders(&mut step);
        self.finish(step)
    }

    fn input(&mut self, step: &mut Step, input: Input) {
        match input {
            Input::Resume { load } => self.resume(step, load),
            Input::Flushed { ticket } => self.flushed(step, ticket),
            Input::Send { call, sends } => {
                let receipts = self.queue(step, sends);
                step.after.push(Action::Receipts { call, receipts });
            }
            Input::Mail { from, first, messages, settled, verdict } => {
                self.mail(step, from, first, messages, (settled, verdict));
            }
            Input::Answer { target, answer } => self.answered(step, target, answer),
            Input::Busy { target, first } => self.busy(step, target, first),
            Input::Room { target } => self.room(step, target),
            Input::Lost { target } => self.lost(step, target),
            Input::Report { from, outcomes } => self.reported(step, from, outcomes),
            Input::ReportAnswer { sender, upto } => self.report_answered(step, sender, upto),
            Input::Ready => self.live.ready = true,
            Input::NotReady => self.live.ready = false,
            Input::HoldWish { held } => self.live.wish_held = held,
            Input::Steer { turn } => self.steer(step, turn),
            Input::End(end) => self.end(step, end),
            Input::Fail { turn, failure } => self.fail(step, turn, failure),
            Input::Interrupt => self.interrupt(step),
            Input::GiveBack => self.give_back(step),
            Input::Close { call } => self.close(step, call),
            Input::Bury => self.bury_all(step, DeadReason::Failed),
            Input::Inspect { call } => {
                let inspection = Box::new(self.state.inspection((self.id, &self.label), true));
                step.after.push(Action::Inspected { call, inspection });
            }
            Input::Tick => self.look_again(step),
        }
    }

    fn resume(&mut self, step: &mut Step, load: u64) {
        let ready = self.live.ready;
        self.live = Live::resumed(&self.state, load);
        self.live.ready = ready;
        self.interrupt(step);
        let targets: Vec<SessionId> = self.live.lanes.keys().copied().collect();
        for target in targets {
            self.flow(step, target);
        }
        // Whom the interrupted turn's dead were reported to was told everything.
        let told = |sender: &&SessionId| !self.live.reported.contains_key(*sender);
        let senders: Vec<SessionId> = self.state.reports.keys().filter(told).copied().collect();
        for sender in senders {
            self.report(step, sender);
        }
    }

    fn flushed(&mut self, step: &mut Step, ticket: u64) {
        self.live.flushed = self.live.flushed.max(ticket);
        let released = self.live.deferred.partition_point(|(waits_for, _)| *waits_for <= ticket);
        step.at_once.extend(self.live.deferred.drain(..released).map(|(_, action)| action));
        let moved = self.live.moves.partition_point(|(waits_for, _)| *waits_for <= ticket);
        let moved: Vec<Move> = self.live.moves.drain(..moved).map(|(_, moved)| moved).collect();
        for moved in &moved {
            match *moved {
                Move::Queued(target, n) => {
                    let lane = self.live.lane(target, self.state.lanes.get(&target));
                    lane.durable = lane.durable.max(n);
                }
                Move::Settled(target, n) => {
                    let lane = self.live.lane(target, self.state.lanes.get(&target));
                    lane.settled = lane.settled.max(n);
                }
            }
        }
        for moved in moved {
            if let Move::Queued(target, _) = moved {
                self.flow(step, target);
            }
        }
        // Where this step records something else, the flush of that goes on.
        if step.events.is_empty() {
            self.go_on_burying(step);
        }
    }

    /// Applies an event and puts it into the step's frame.
    pub(super) fn record(&mut self, step: &mut Step, event: Event) {
        let applied: Result<(), Illegal> = self.state.apply(&event);
        assert!(applied.is_ok(), "{applied:?}: {event:?}");
        let moved = match &event {
            Event::Queued { target, n, .. } => Some(Move::Queued(*target, *n)),
            Event::Delivered { target, upto, .. } => Some(Move::Settled(*target, *upto)),
            _ => None,
        };
        if let Some(moved) = moved {
            self.live.moves.push_back((self.live.appended + 1, moved));
        }
        step.events.push(event);
    }

    fn finish(&mut self, step: Step) -> Effects {
        if !step.events.is_empty() {
            self.live.appended += 1;
        }
        let newest = self.live.appended;
        let waits = newest > self.live.flushed;
        let urgent = waits && !step.after.is_empty();
        let mut actions = step.at_once;
        if waits {
            self.live.deferred.extend(step.after.into_iter().map(|action| (newest, action)));
        } else {
            actions.extend(step.after);
        }
        let ticket = if step.events.is_empty() { 0 } else { newest };
        Effects { events: step.events, ticket, urgent, actions, wake: self.wake() }
    }

    fn wake(&self) -> Option<Timestamp> {
        let closing = self.state.closed || self.live.burying.is_some();
        let idle = self.live.ready && self.state.turn.is_none() && !closing;
        let failed = idle && self.tried_in_front().is_some_and(|tried| tried > 0);
        let retry = self.live.not_before.filter(|_| failed);
        match (self.live.look_at, retry) {
            (Some(look), Some(retry)) => Some(look.min(retry)),
            (look, retry) => look.or(retry),
        }
    }

    /// The whole state as a snapshot's payload. Once there is room for it, it is appended as the
    /// next append, under [`Machine::number_snapshot`], with no step in between.
    ///
    /// # Errors
    /// When the state cannot be serialised, which its types do not allow.
    pub fn snapshot_payload(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&self.state)
    }

    /// Takes the ticket for a snapshot, as the next append.
    pub fn number_snapshot(&mut self) -> u64 {
        self.live.appended += 1;
        self.live.appended
    }
}
