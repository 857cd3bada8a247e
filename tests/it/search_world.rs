//! A world around real machines: their journals, one committer's queue, and the cells between them.
//!
//! **Invariant**: the world carries out what machines decide, as the actors and the committer
//! would, and decides nothing itself. All that a kill would take is apart from what it would not.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use callboard::config::Limits;
use callboard::protocol::session::input::End;
use callboard::protocol::session::{
    Action, Addressed, BodySpec, Call, Created, Effects, Event, Failure, Input, Machine, State,
    Verdict,
};
use callboard::protocol::{
    Body, Label, Message, MessageId, SessionId, Source, SourceKind, Timestamp,
};
use uuid::Uuid;

use super::search_break::{self, Broken, Habit};
use super::search_ghost::{Ghost, Violation};

/// The moment at which everything happens but the ticks of a clock.
pub(crate) const NOW: Timestamp = Timestamp(0);

/// What is constant in a world.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) sessions: usize,
    /// Who sends to whom, and how often.
    pub(crate) pairs: Vec<(usize, usize, u8)>,
    /// Which bodies take turns.
    pub(crate) ready: Vec<usize>,
    pub(crate) limits: Limits,
    /// How many faults there may be, and of which kinds.
    pub(crate) faults: u8,
    pub(crate) kinds: Vec<Kind>,
    /// Who may be closed.
    pub(crate) closes: Option<usize>,
    /// Whether all edges may be revoked.
    pub(crate) revokes: bool,
    /// Whether senders are told what was lost with a load, or left to their backoff.
    pub(crate) told: bool,
    pub(crate) broken: Broken,
    /// Whether only journals are looked at, and no action as it leaves.
    pub(crate) blind: bool,
}

/// What may go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Busy,
    Group,
    Kill,
    Panic,
    Unload,
    Duplicate,
    Early,
    Turn,
}

/// One frame that was handed to the committer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    pub(crate) session: usize,
    pub(crate) load: u64,
    pub(crate) ticket: u64,
    pub(crate) events: Vec<Event>,
}

/// What the body does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Doing {
    #[default]
    Nothing,
    Turn,
    /// It has asked what has arrived and waits for the answer; it may fail meanwhile, but not end.
    Asking,
    /// It has asked to end and waits for the word.
    Ending,
    /// It has failed and waits for the word.
    Failing,
}

/// One session: its journal, its cell, and its actor while there is one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    pub(crate) durable: State,
    pub(crate) machine: Option<Machine>,
    pub(crate) load: u64,
    /// The actor died or its load failed: it is made again though nothing may be pending.
    pub(crate) orphaned: bool,
    /// The committer has ended this load and the actor does not know yet.
    pub(crate) ended: bool,
    pub(crate) doing: Doing,
    /// The turn that the body is in.
    pub(crate) turn: u64,
    pub(crate) wake: Option<Timestamp>,
    pub(crate) habit: Habit,
    /// The mail lane of its cell.
    pub(crate) cell: VecDeque<Input>,
    /// The lane for acknowledgements and control.
    pub(crate) control: VecDeque<Input>,
    /// Dispatches that were drained and not answered, by sender.
    pub(crate) unanswered: BTreeMap<usize, u8>,
    /// Senders that were turned away in this load.
    pub(crate) turned_away: Vec<usize>,
    /// The counter of room that is in use.
    pub(crate) pending: i64,
    /// The newest ticket of this load that is on disk, and what is left of a load that fell.
    pub(crate) proof: u64,
    pub(crate) remains: Option<Machine>,
}

/// A state of the world.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) slots: Vec<Rc<Slot>>,
    /// Hashes of the slots and of the ghost, for [`World::digest`].
    hashes: Vec<u64>,
    pub(crate) queue: Vec<Frame>,
    /// Frames of ended loads that a broken committer still holds.
    pub(crate) late: Vec<Frame>,
    pub(crate) ghost: Rc<Ghost>,
    pub(crate) sent: Vec<u8>,
    pub(crate) faults: u8,
    pub(crate) close_spent: bool,
    pub(crate) revoked: bool,
    /// Ticks in a row.
    pub(crate) ticks: u8,
}

pub(crate) fn id(session: usize) -> SessionId {
    SessionId::new(Uuid::from_u128(session as u128 + 1))
}

fn index(id: SessionId) -> usize {
    id.as_u128() as usize - 1
}

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

fn message(from: usize, to: usize, k: u8) -> Arc<Message> {
    let name = Label::new("someone").unwrap();
    let source =
        Source { kind: SourceKind::Driver, sender: id(from), name, correlation: None, hop: 0 };
    let number = from as u128 * 10_000 + to as u128 * 100 + u128::from(k) + 1;
    let id = MessageId::new(Uuid::from_u128(number));
    Arc::new(Message { id, source, sent: NOW, body: Body::Text(String::new()) })
}

impl World {
    /// Nothing was sent yet; every session is loaded.
    pub(crate) fn start(plan: &Plan) -> Result<World, Violation> {
        let slot = |session: usize| {
            let label = Label::new("someone").unwrap();
            let created =
                Created { id: id(session), label, workspace: None, body: BodySpec::Driver };
            Rc::new(Slot {
                durable: State { created: Some(created.into()), ..State::default() },
                machine: None,
                load: 0,
                orphaned: false,
                ended: false,
                doing: Doing::Nothing,
                turn: 0,
                wake: None,
                habit: Habit::default(),
                cell: VecDeque::new(),
                control: VecDeque::new(),
                unanswered: BTreeMap::new(),
                turned_away: Vec::new(),
                pending: 0,
                proof: 0,
                remains: None,
            })
        };
        let mut world = World {
            slots: (0..plan.sessions).map(slot).collect(),
            hashes: Vec::new(),
            queue: Vec::new(),
            late: Vec::new(),
            ghost: Rc::default(),
            sent: vec![0; plan.pairs.len()],
            faults: plan.faults,
            close_spent: plan.closes.is_none(),
            revoked: false,
            ticks: 0,
        };
        for session in 0..plan.sessions {
            world.load(plan, session)?;
        }
        Ok(world)
    }

    /// A number for this state, given the world before it: what is shared is not hashed again.
    pub(crate) fn digest(&mut self, before: Option<&World>) -> u64 {
        let same = |at: usize| {
            let before = before?;
            let same = match self.slots.get(at) {
                Some(slot) => Rc::ptr_eq(slot, &before.slots[at]),
                None => Rc::ptr_eq(&self.ghost, &before.ghost),
            };
            same.then(|| before.hashes[at])
        };
        let slots = self.slots.iter().enumerate();
        let mut hashes: Vec<u64> =
            slots.map(|(at, slot)| same(at).unwrap_or_else(|| hash(slot))).collect();
        hashes.push(same(self.slots.len()).unwrap_or_else(|| hash(&self.ghost)));
        self.hashes = hashes;
        let flags = (self.faults, self.close_spent, self.revoked, self.ticks);
        hash(&(&self.hashes, &self.queue, &self.late, &self.sent, flags))
    }

    pub(crate) fn slot(&mut self, session: usize) -> &mut Slot {
        Rc::make_mut(&mut self.slots[session])
    }

    /// Feeds a machine and carries out what it decided.
    pub(crate) fn feed(
        &mut self,
        plan: &Plan,
        session: usize,
        (inputs, now): (Vec<Input>, Timestamp),
    ) -> Result<(), Violation> {
        let slot = Rc::make_mut(&mut self.slots[session]);
        let Some(machine) = slot.machine.as_mut() else { return Ok(()) };
        let effects = search_break::step(plan.broken, &mut slot.habit, machine, (inputs, now));
        let Effects { events, ticket, actions, wake, urgent: _ } = effects;
        slot.wake = wake;
        let (load, refused) = (slot.load, slot.ended);
        if !events.is_empty() {
            let frame = Frame { session, load, ticket, events };
            if !refused {
                self.queue.push(frame);
            } else if plan.broken == Broken::LateFailed {
                self.late.push(frame);
            }
        }
        for action in actions {
            self.carry_out(plan, session, action)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, plan: &Plan, session: usize, action: Action) -> Result<(), Violation> {
        let durable = &self.slots[session].durable;
        let settled_with = |to: SessionId| durable.lanes.get(&to).map_or(0, |lane| lane.settled);
        if !plan.blind {
            self.ghost.seen(id(session), &action, settled_with)?;
        }
        let from = id(session);
        match action {
            Action::Dispatch { target, first, messages, settled } => {
                let verdict = if self.revoked { Verdict::Revoked } else { Verdict::Allowed };
                let mail = Input::Mail { from, first, messages, settled, verdict };
                self.slot(index(target)).cell.push_back(mail);
            }
            Action::Answer { to, answer } => {
                let sender = index(to);
                let unanswered = self.slot(session).unanswered.entry(sender).or_default();
                *unanswered = unanswered.saturating_sub(1);
                let answer = Input::Answer { target: from, answer };
                self.slot(sender).control.push_back(answer);
            }
            Action::Report { to, outcomes } => {
                let report = Input::Report { from, outcomes };
                self.slot(index(to)).control.push_back(report);
            }
            Action::ReportAnswer { to, upto } => {
                let answer = Input::ReportAnswer { sender: from, upto };
                self.slot(index(to)).control.push_back(answer);
            }
            Action::Begin { turn, .. } => {
                let slot = self.slot(session);
                if slot.doing != Doing::Nothing || slot.durable.turns < turn {
                    return Err("a turn began within another, or before its flush");
                }
                (slot.doing, slot.turn) = (Doing::Turn, turn);
            }
            Action::Steered { .. } => {
                let slot = self.slot(session);
                // What comes after the failure of the turn that asked finds nobody.
                if matches!(slot.doing, Doing::Asking | Doing::Ending) {
                    slot.doing = Doing::Turn;
                }
            }
            Action::Ended { .. } => {
                let slot = self.slot(session);
                if slot.doing != Doing::Ending && slot.machine.is_some() {
                    slot.control.push_back(Input::Ready);
                }
                (slot.doing, slot.turn) = (Doing::Nothing, 0);
            }
            Action::Release { count } => {
                let slot = self.slot(session);
                slot.pending -= count as i64;
            }
            Action::Receipts { .. } | Action::Closed { .. } | Action::Inspected { .. } => {}
        }
        Ok(())
    }

    /// A body's request to send once more to a target.
    pub(crate) fn send(&mut self, plan: &Plan, pair: usize) -> Result<(), Violation> {
        let (from, to, _) = plan.pairs[pair];
        let message = message(from, to, self.sent[pair]);
        self.sent[pair] += 1;
        self.slot(to).pending += 1;
        let sends = vec![Addressed { target: id(to), message }];
        self.feed(plan, from, (vec![Input::Send { call: Call(0), sends }], NOW))
    }

    /// The body asks for the end of its turn, with a wish for another, or a message staged.
    pub(crate) fn end_turn(
        &mut self,
        plan: &Plan,
        session: usize,
        (again, staged): (bool, Option<usize>),
    ) -> Result<(), Violation> {
        self.slot(session).doing = Doing::Ending;
        let n_queued = |world: &World| {
            world.slots[session].machine.as_ref().map_or(0, |machine| machine.state().counts.queued)
        };
        let before = n_queued(self);
        let sends = staged.map(|pair| {
            let (from, to, _) = plan.pairs[pair];
            // Room is reserved while it is staged.
            self.slot(to).pending += 1;
            (to, Addressed { target: id(to), message: message(from, to, self.sent[pair]) })
        });
        let (to, sends): (Vec<usize>, Vec<Addressed>) = sends.into_iter().unzip();
        let turn = self.slots[session].turn;
        let end = End { turn, ready: true, again, sends, ..End::default() };
        self.feed(plan, session, (vec![Input::End(end)], NOW))?;
        match (staged, n_queued(self) > before) {
            (Some(pair), true) => self.sent[pair] += 1,
            (Some(_), false) => self.slot(to[0]).pending -= 1,
            (None, _) => {}
        }
        Ok(())
    }

    pub(crate) fn fail_turn(&mut self, plan: &Plan, session: usize) -> Result<(), Violation> {
        self.slot(session).doing = Doing::Failing;
        let turn = self.slots[session].turn;
        let failure = Failure { code: "BAD".to_owned(), message: String::new() };
        self.feed(plan, session, (vec![Input::Fail { turn, failure }], NOW))
    }

    /// The first `count` frames of the queue reach the disk.
    pub(crate) fn write(&mut self, count: usize, told: bool) -> Result<(), Violation> {
        for frame in self.queue.drain(..count).collect::<Vec<_>>() {
            self.write_frame(&frame)?;
            let slot = self.slot(frame.session);
            if slot.load == frame.load && !slot.ended {
                slot.proof = frame.ticket;
            }
            if !told || slot.machine.is_none() || slot.load != frame.load || slot.ended {
                continue;
            }
            let news = Input::Flushed { ticket: frame.ticket };
            match slot.control.back_mut() {
                Some(last @ Input::Flushed { .. }) => *last = news,
                _ => slot.control.push_back(news),
            }
        }
        Ok(())
    }

    pub(crate) fn write_frame(&mut self, frame: &Frame) -> Result<(), Violation> {
        let ghost = Rc::make_mut(&mut self.ghost);
        for event in &frame.events {
            ghost.note(id(frame.session), event)?;
        }
        let durable = &mut self.slot(frame.session).durable;
        for event in &frame.events {
            durable.apply(event).map_err(|illegal| illegal.0)?;
        }
        Ok(())
    }

    /// The group of the first `count` frames fails: the loads of its sessions end.
    pub(crate) fn fail_group(&mut self, plan: &Plan, count: usize) {
        let mut failed: Vec<usize> = self.queue[..count].iter().map(|f| f.session).collect();
        failed.dedup();
        let queue = std::mem::take(&mut self.queue);
        let (dropped, kept) = queue.into_iter().partition(|f| failed.contains(&f.session));
        self.queue = kept;
        if plan.broken == Broken::LateFailed {
            self.late.extend::<Vec<Frame>>(dropped);
        }
        for session in failed {
            let slot = self.slot(session);
            slot.ended = slot.machine.is_some();
        }
    }

    /// The actor is gone; its cell stays.
    pub(crate) fn end_load(&mut self, session: usize, orphaned: bool) {
        let slot = self.slot(session);
        slot.remains = slot.machine.take().filter(|_| orphaned);
        slot.orphaned = orphaned;
        slot.ended = false;
        (slot.doing, slot.turn) = (Doing::Nothing, 0);
        slot.wake = None;
        slot.habit = Habit::default();
        slot.turned_away.clear();
        slot.control.retain(|input| !matches!(input, Input::Flushed { .. } | Input::Ready));
    }

    /// Everything volatile is gone; the first `count` frames of the queue are on disk.
    pub(crate) fn kill(&mut self, plan: &Plan, count: usize) -> Result<(), Violation> {
        self.write(count, false)?;
        self.queue.clear();
        self.late.clear();
        for session in 0..self.slots.len() {
            self.end_load(session, false);
            let slot = self.slot(session);
            slot.cell.clear();
            slot.control.clear();
            slot.unanswered.clear();
            slot.remains = None;
            slot.load = 0;
        }
        for session in 0..self.slots.len() {
            let undecided = self.ghost.n_undecided(id(session));
            let slot = self.slot(session);
            slot.pending = (undecided + slot.durable.n_untaken()) as i64;
        }
        for session in 0..self.slots.len() {
            self.load(plan, session)?;
        }
        Ok(())
    }

    /// Room that no written message holds any more is given back for a load that fell.
    fn settle(&mut self, session: usize) {
        let slot = self.slot(session);
        let Some(mut machine) = slot.remains.take() else { return };
        let effects = machine.step([Input::Flushed { ticket: slot.proof }], NOW);
        for action in effects.actions {
            if let Action::Release { count } = action {
                slot.pending -= count as i64;
            }
        }
        for (target, count) in machine.unproved() {
            self.slot(index(target)).pending -= count as i64;
        }
    }

    /// A new actor: reads the journal, settles what its predecessor left, and goes on.
    pub(crate) fn load(&mut self, plan: &Plan, session: usize) -> Result<(), Violation> {
        self.settle(session);
        let slot = self.slot(session);
        slot.load += 1;
        slot.orphaned = false;
        slot.proof = 0;
        let load = slot.load;
        let state = slot.durable.clone();
        let unanswered = std::mem::take(&mut slot.unanswered);
        slot.machine = Some(Machine::new(state, plan.limits.clone()).unwrap());
        for (sender, _) in unanswered.into_iter().filter(|(_, n)| plan.told && *n > 0) {
            self.slot(sender).control.push_back(Input::Lost { target: id(session) });
        }
        let ready = plan.ready.contains(&session).then_some(Input::Ready);
        let inputs = std::iter::once(Input::Resume { load }).chain(ready).collect();
        self.feed(plan, session, (inputs, NOW))
    }
}
