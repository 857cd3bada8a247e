//! One session in memory: drains its cell into the machine and carries out what is decided.
//!
//! **Invariant**: one drain is one step is one frame; room for the frame comes first, and without
//! it the state is untouched; what the machine hands out is carried out, nothing else is.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;

use super::arbiter::Local;
use super::body::Body;
use super::cell::Cell;
use super::control::{Control, Receipt, Reply};
use super::ending::Why;
use super::outgoing::{Outgoing, answer};
use super::sights::Sights;
use super::snapshot::Chain;
use crate::error::{Code, Error, Fault};
use crate::persist::store::{Append, Load, NoPermit, Payload, Permit, Purpose, Urgency};
use crate::protocol::hash::IdHash;
use crate::protocol::session::{Call, Effects, Input, Inspection, Machine};
use crate::protocol::{SessionId, Timestamp};

/// Rounds of one drain: what the actor gives itself to do is done at once, up to here.
const ROUNDS_MAX: usize = 8;

/// One session in memory.
pub(super) struct Resident {
    pub(super) local: Rc<Local>,
    pub(super) cell: Arc<Cell>,
    pub(super) load: Load,
    pub(super) machine: Machine,
    /// What the machine is told next.
    pub(super) batch: VecDeque<Input>,
    pub(super) callers: HashMap<u64, Caller, IdHash>,
    next_call: u64,
    pub(super) outgoing: Rc<RefCell<Outgoing>>,
    pub(super) body: Body,
    pub(super) chain: Chain,
    pub(super) snapshot_wanted: bool,
    pub(super) sights: Sights,
    /// Told when the first frame is on disk.
    maker: Option<Reply<()>>,
    /// The first frame, until the journal has room for it.
    first: Option<Box<Effects>>,
    /// When the arbiter wakes this session.
    pub(super) timer: Option<Timestamp>,
    pub(super) machine_wake: Option<Timestamp>,
    pub(super) idle_since: Option<Timestamp>,
    /// The bus closes: the open turn may end until then.
    pub(super) stop_at: Option<Timestamp>,
    /// Without room in the journal, it is asked for again then.
    pub(super) blocked_until: Option<Timestamp>,
}

/// Who waits for the machine's answer.
pub(super) enum Caller {
    Send { reply: Reply<Receipt>, wait_for_room: bool },
    Inspect(Reply<Option<Inspection>>),
    Close(Reply<()>),
}

/// What is to follow a drain.
pub(super) enum After {
    /// Nothing until the cell wakes the actor.
    Wait,
    /// Another drain, at the back of the queue.
    Again,
    /// The end of the load.
    End(Why),
}

/// What came of a step.
enum Stepped {
    /// There was nothing to decide.
    Idle,
    /// Something was decided.
    Done,
    /// The journal has no room now: the store calls, or a timer does.
    Blocked,
    /// The load is over.
    Fell(Fault),
}

impl Resident {
    pub(super) fn new(
        local: &Rc<Local>,
        cell: &Arc<Cell>,
        load: Load,
        machine: Machine,
        chain: Chain,
    ) -> Self {
        let label = machine.label().clone();
        let outgoing = Outgoing::new(&local.shared, cell, label);
        let sights = Sights::new(&machine, local.shared.observer.is_some());
        let mut resident = Resident {
            local: Rc::clone(local),
            cell: Arc::clone(cell),
            load,
            machine,
            batch: VecDeque::new(),
            callers: HashMap::default(),
            next_call: 0,
            outgoing: Rc::new(RefCell::new(outgoing)),
            body: Body::Absent,
            chain,
            snapshot_wanted: false,
            sights,
            maker: None,
            first: None,
            timer: None,
            machine_wake: None,
            idle_since: None,
            stop_at: None,
            blocked_until: None,
        };
        resident.embody();
        resident
    }

    /// The session is being made: its first frame is to be handed over.
    pub(super) fn make(&mut self, effects: Effects, reply: Reply<()>) {
        self.maker = Some(reply);
        self.first = Some(Box::new(effects));
        self.body_starts();
    }

    /// Hands the first frame over, where that is still to be done. Without it nothing is decided.
    fn hand_over_first(&mut self) -> Option<After> {
        let first = self.first.take()?;
        let bytes = serde_json::to_vec(&first.events).map_or(0, |events| events.len());
        let fault = match self.local.shared.store.permit(self.load, bytes, Purpose::Send) {
            Ok(permit) => {
                let now = self.local.shared.clock.now();
                self.append(permit, *first, now);
                return None;
            }
            Err(NoPermit::Wait) => {
                self.first = Some(first);
                self.arm();
                return Some(After::Wait);
            }
            Err(NoPermit::Fault(fault)) => fault,
        };
        if let Some(maker) = self.maker.take() {
            answer(maker, Err(fault.into()));
        }
        Some(After::End(Why::Absent))
    }

    /// The session was replayed.
    pub(super) fn resume(&mut self) {
        self.batch.push_back(Input::Resume { load: self.load.number });
        if self.cell.is_failed_for_good() {
            self.batch.push_back(Input::Bury);
        }
        self.body_starts();
    }

    /// Drains, decides, carries out.
    pub(super) fn work(&mut self, task: &mut Context<'_>) -> After {
        let mut budget = self.local.shared.config.life.drain_budget;
        let mut more = true;
        self.tick();
        if self.is_overdue() {
            return After::End(Why::Stop);
        }
        if let Some(after) = self.hand_over_first() {
            return after;
        }
        for _ in 0..ROUNDS_MAX {
            if let Some(fault) = self.cell.proof.fault() {
                return After::End(Why::Fault(fault));
            }
            more = self.gather(&mut budget);
            let stepped = self.step();
            if let Stepped::Fell(fault) = stepped {
                return After::End(Why::Fault(fault));
            }
            let polled = self.poll_body(task);
            match stepped {
                Stepped::Blocked => {
                    if self.stop_at.is_some() && self.local.shared.store.fault().is_some() {
                        return After::End(Why::Stop);
                    }
                    self.arm();
                    return After::Wait;
                }
                Stepped::Idle if !polled => break,
                Stepped::Idle | Stepped::Done | Stepped::Fell(_) => {}
            }
        }
        self.snapshot_if_due();
        if more || !self.batch.is_empty() || self.has_proof() {
            return After::Again;
        }
        self.come_to_rest()
    }

    fn has_proof(&self) -> bool {
        self.cell.proof.flushed() > self.machine.tickets().1 || self.cell.proof.fault().is_some()
    }

    /// Takes what waits in the cell, within the budget; whether something is left there.
    fn gather(&mut self, budget: &mut usize) -> bool {
        let held = if self.blocked_until.is_some() { 0 } else { self.batch.len() };
        let most = budget.saturating_sub(held);
        if most == 0 {
            return self.cell.has_input();
        }
        let bytes = self.local.shared.config.store.frame_max / 2;
        let taken = self.cell.take(most, bytes, &mut *self.local.controls.borrow_mut());
        let n_control = self.local.controls.borrow().len();
        *budget -= (n_control + taken.mail.len()).min(*budget);
        for _ in 0..n_control {
            let control = self.local.controls.borrow_mut().pop_front();
            control.into_iter().for_each(|control| self.receive(control));
        }
        let failed = self.cell.is_failed();
        self.batch.extend(taken.mail.into_iter().map(|mail| mail.into_input(failed)));
        taken.more
    }

    fn step(&mut self) -> Stepped {
        let flushed = self.cell.proof.flushed();
        if flushed > self.machine.tickets().1 {
            if let Some(Input::Flushed { ticket }) = self.batch.front_mut() {
                *ticket = flushed;
            } else {
                self.batch.push_front(Input::Flushed { ticket: flushed });
            }
        }
        loop {
            if self.batch.is_empty() {
                self.blocked_until = None;
                return Stepped::Idle;
            }
            let fit = self.machine.fit(&self.batch, self.local.shared.config.store.frame_max);
            if fit.bytes == 0 {
                self.decide(fit.inputs, None);
                return Stepped::Done;
            }
            let purpose = self.purpose(fit.inputs);
            match self.local.shared.store.permit(self.load, fit.bytes, purpose) {
                Ok(permit) => {
                    self.decide(fit.inputs, Some(permit));
                    return Stepped::Done;
                }
                Err(NoPermit::Wait) => return Stepped::Blocked,
                Err(NoPermit::Fault(fault)) if fault.code == Code::Closed => {
                    return Stepped::Fell(fault);
                }
                Err(NoPermit::Fault(fault)) => {
                    self.local.shared.look_for_fault();
                    let turned_away = self.turn_away(&fault);
                    let n_roomless = self.put_roomless_first();
                    if n_roomless > 0 {
                        self.decide(n_roomless, None);
                        return Stepped::Done;
                    }
                    if !turned_away {
                        let wait = self.local.shared.config.limits.resend_after;
                        self.blocked_until = Some(self.local.shared.clock.steady().after(wait));
                        return Stepped::Blocked;
                    }
                }
            }
        }
    }

    fn purpose(&self, n_inputs: usize) -> Purpose {
        let new_work = |input: &Input| match input {
            Input::Send { .. } => true,
            Input::End(end) => !end.sends.is_empty(),
            _ => false,
        };
        let sends = self.batch.iter().take(n_inputs).any(new_work);
        if sends { Purpose::Send } else { Purpose::Settle }
    }

    fn decide(&mut self, n_inputs: usize, permit: Option<Permit>) {
        self.blocked_until = None;
        let now = self.local.shared.clock.now();
        let inputs: Vec<Input> = self.batch.drain(..n_inputs).collect();
        self.idle_since = None;
        self.sights.look(&self.machine, &inputs);
        let mut effects = self.machine.step(inputs, self.local.shared.clock.steady());
        self.machine_wake = effects.wake;
        self.sights.note(&self.machine, &effects);
        self.body_committed(&effects.events);
        let (urgent, appends) = (effects.urgent, !effects.events.is_empty());
        self.local.actions.borrow_mut().extend(effects.actions.drain(..));
        let n_actions = self.local.actions.borrow().len();
        match permit {
            Some(permit) if appends => self.append(permit, effects, now),
            Some(_) | None => {
                assert!(!appends, "events without room for them");
                if urgent {
                    self.local.shared.store.urge();
                }
            }
        }
        self.publish();
        for _ in 0..n_actions {
            let action = self.local.actions.borrow_mut().pop_front();
            action.into_iter().for_each(|action| self.carry_out(action));
        }
    }

    fn append(&mut self, permit: Permit, effects: Effects, now: Timestamp) {
        let Effects { events, ticket, urgent, .. } = effects;
        let payload = match self.local.written(&events) {
            Ok(payload) => payload,
            Err(error) => {
                let text = format!("an event cannot be written: {error}");
                let fault = Fault::new(Code::NotDurable, text);
                self.cell.proof.settled(self.load.number, ticket, Err(fault));
                return;
            }
        };
        self.chain.grow(payload.len());
        let append = Append {
            ticket,
            payload: Payload::Events(payload),
            pending: self.machine.state().has_pending(),
            urgency: if urgent { Urgency::Now } else { Urgency::Lazy },
            time: now,
        };
        self.local.shared.store.append(permit, append);
    }

    /// Shows what has become durable.
    fn publish(&mut self) {
        let flushed = self.machine.tickets().1;
        self.sights.publish(&self.local.shared, &self.machine, flushed);
        if flushed > 0
            && let Some(maker) = self.maker.take()
        {
            answer(maker, Ok(()));
        }
    }

    /// The journal has no room: sends are refused with its fault, mail is sent back as by a busy
    /// target; the rest waits. Returns whether there was any of it.
    fn turn_away(&mut self, fault: &Fault) -> bool {
        let mut any = false;
        for input in std::mem::take(&mut self.batch) {
            match input {
                Input::Send { call, sends } => {
                    any = true;
                    for send in sends {
                        self.local.shared.cell(send.target).release(1);
                    }
                    self.answer_send(call, Err(fault.clone().into()));
                }
                Input::Mail { from, first, .. } => {
                    any = true;
                    let busy = Input::Busy { target: self.cell.id(), first };
                    self.tell(from, busy);
                }
                Input::Close { call } => {
                    // It is done when there is room, and nobody waits for that.
                    if let Some(Caller::Close(reply)) = self.callers.remove(&call.0) {
                        answer(reply, Err(fault.clone().into()));
                    }
                    self.batch.push_back(Input::Close { call });
                }
                rest => self.batch.push_back(rest),
            }
        }
        if self.local.shared.store.fault().is_some() {
            // There will be no room again.
            self.body_faults(fault);
            for (_, caller) in self.callers.extract_if(|_, it| matches!(it, Caller::Close(_))) {
                if let Caller::Close(reply) = caller {
                    answer(reply, Err(fault.clone().into()));
                }
            }
        }
        any
    }

    /// Moves what writes nothing in front of what waits for room; how many there are.
    fn put_roomless_first(&mut self) -> usize {
        let (mut roomless, mut waiting) = (VecDeque::new(), VecDeque::new());
        for input in std::mem::take(&mut self.batch) {
            let needs_room = self.machine.needs_room(&input);
            if needs_room { waiting.push_back(input) } else { roomless.push_back(input) }
        }
        let n_roomless = roomless.len();
        roomless.append(&mut waiting);
        self.batch = roomless;
        let frame_max = self.local.shared.config.store.frame_max;
        let fit = self.machine.fit(self.batch.iter().take(n_roomless), frame_max);
        if fit.bytes == 0 { fit.inputs } else { 0 }
    }

    /// Tells another session, by its acknowledgement lane.
    pub(super) fn tell(&self, session: SessionId, input: Input) {
        self.local.shared.cell(session).push(Control::Input(input));
    }

    pub(super) fn call(&mut self, caller: Caller) -> Call {
        self.next_call += 1;
        self.callers.insert(self.next_call, caller);
        Call(self.next_call)
    }

    pub(super) fn answer_send(&mut self, call: Call, receipt: Result<Receipt, Error>) {
        if let Some(Caller::Send { reply, .. }) = self.callers.remove(&call.0) {
            answer(reply, receipt);
        }
    }

    /// Who waits for the session to be made, where the load ends first.
    pub(super) fn take_maker(&mut self) -> Option<Reply<()>> {
        self.maker.take()
    }
}
