//! How a load ends: idle, stopped, fallen or never begun; and what is said to those who wait.
//!
//! **Invariant**: a load ends in the committer, and the next one begins only after that; every
//! caller is answered; room that no written message holds is given back; whoever waits for an
//! answer of the ended load sends again. Sends that were not decided keep their place in front.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use super::arbiter::Local;
use super::cell::{Cell, Phase};
use super::control::{Control, Send};
use super::load;
use super::outgoing::answer;
use super::request::{Fallen, Request};
use super::resident::{Caller, Resident};
use crate::error::{Code, Ended, Error, Fault, Refused};
use crate::persist::store::Load;
use crate::protocol::session::{Action, Addressed, Call, Input, Machine};
use crate::protocol::{Draft, SessionId, SourceKind};

/// Why a load ends.
pub(super) enum Why {
    /// Nothing is left to do.
    Unload,
    /// The bus closes.
    Stop,
    /// The journal failed.
    Fault(Fault),
    /// The actor panicked.
    Panicked,
    /// The journal cannot be read.
    Unreadable(Fault),
    /// There is no journal.
    Absent,
}

/// What is left of a load while the committer ends it.
pub(super) struct Remains {
    machine: Option<Machine>,
    why: Why,
    /// Whose mail was taken and not looked at.
    unseen: Vec<SessionId>,
}

impl Resident {
    /// Ends the load. The next one begins when the committer has ended this one.
    pub(super) fn end(mut self, why: Why) {
        let (appended, flushed) = self.machine.tickets();
        let unknown = match &why {
            Why::Unload | Why::Absent => Error::from(Ended::Closed),
            // What was overdue may be on its way to the disk.
            Why::Stop if appended == flushed => Ended::Closed.into(),
            Why::Stop => not_durable().into(),
            Why::Fault(_) | Why::Panicked | Why::Unreadable(_) => not_durable().into(),
        };
        let body = std::mem::replace(&mut self.body, super::body::Body::Absent);
        // A panic in an agent's drop must not keep the load from ending.
        drop(catch_unwind(AssertUnwindSafe(|| drop(body))));
        self.give_back_room();
        let unlooked = std::mem::take(&mut *self.local.controls.borrow_mut());
        let mut unseen = Vec::new();
        let mut undecided = Vec::new();
        for input in std::mem::take(&mut self.batch) {
            match input {
                Input::Send { call, sends } => undecided.extend(self.undecided(call, sends)),
                Input::Mail { from, .. } | Input::Report { from, .. } => unseen.push(from),
                _ => {}
            }
        }
        for (_, caller) in self.callers.drain() {
            match caller {
                Caller::Send { reply, .. } => answer(reply, Err(unknown.clone())),
                Caller::Inspect(reply) => answer(reply, Err(unknown.clone())),
                Caller::Close(reply) => answer(reply, Err(unknown.clone())),
            }
        }
        if let Some(reply) = self.take_maker() {
            answer(reply, Err(unknown));
        }
        let Resident { local, cell, load, machine, outgoing, .. } = self;
        // Per target, what waits came after what was prepared.
        if let Ok(outgoing) = Rc::try_unwrap(outgoing) {
            undecided.extend(outgoing.into_inner().into_waiting());
        }
        // The turn that has sent it is over, and is tried again.
        undecided.retain(|send| send.kind != SourceKind::Agent);
        if matches!(why, Why::Stop) {
            undecided.drain(..).for_each(|send| answer(send.reply, Err(Ended::Closed.into())));
        }
        let unlooked = unlooked.into_iter().filter(outlasts_a_load);
        cell.put_back(undecided.into_iter().map(Control::Send).chain(unlooked).collect());
        drain(&local, &cell, load, Remains { machine: Some(machine), why, unseen });
    }

    /// Room that is free by what is on disk, where a panic kept it from being given back.
    fn give_back_room(&self) {
        for action in std::mem::take(&mut *self.local.actions.borrow_mut()) {
            if let Action::Release { count } = action {
                self.cell.release(count);
            }
        }
    }

    /// Sends that the machine has not seen, without their room: the next load takes them in.
    fn undecided(&mut self, call: Call, sends: Vec<Addressed>) -> Option<Send> {
        for send in &sends {
            self.local.shared.cell(send.target).release(1);
        }
        let Some(Caller::Send { reply, wait_for_room }) = self.callers.remove(&call.0) else {
            return None;
        };
        // Each call sends one message; its cause was of a turn that is over.
        let Addressed { target, message } = sends.into_iter().next()?;
        let draft = Draft { to: target, body: message.body.clone(), cause: None };
        Some(Send { draft, wait_for_room, kind: message.source.kind, reply })
    }
}

/// Whether what was not looked at is for the next load too: not what the turn that is over has
/// asked for, nor a word that the supervisor has said before it knew of the fall.
fn outlasts_a_load(control: &Control) -> bool {
    let of_the_turn = match control {
        Control::Send(send) => send.kind == SourceKind::Agent,
        other => matches!(other, Control::Stage { .. } | Control::Arrived { .. }),
    };
    !of_the_turn && !matches!(control, Control::Respawn | Control::Withhold)
}

/// A load that has begun and has no machine.
pub(super) fn without_machine(local: &Local, cell: &Arc<Cell>, load: Load, why: Why) {
    drain(local, cell, load, Remains { machine: None, why, unseen: Vec::new() });
}

/// A load of a session that has no journal.
pub(super) fn absent(local: &Local, cell: &Arc<Cell>, load: Load) {
    without_machine(local, cell, load, Why::Absent);
}

fn drain(local: &Local, cell: &Arc<Cell>, load: Load, remains: Remains) {
    cell.set_phase(Phase::Draining);
    local.remains.borrow_mut().insert(cell.id(), remains);
    let ended = Arc::clone(cell);
    local.shared.store.end(
        load,
        Box::new(move || {
            ended.proof.end();
            ended.wake();
        }),
    );
}

/// The committer has ended the load.
pub(super) fn finish(local: &Rc<Local>, cell: &Arc<Cell>) {
    let Some(remains) = local.remains.borrow_mut().remove(&cell.id()) else { return };
    let Remains { machine, why, unseen } = remains;
    if let Some(machine) = machine {
        settle(local, cell, machine, &why);
        for from in unseen {
            tell_lost(local, cell, from);
        }
    }
    local.leave(cell);
    match why {
        Why::Unload => {
            cell.set_phase(Phase::Cold);
            cell.settle_down();
            local.shared.note_left();
        }
        Why::Stop => cell.shut(),
        Why::Absent => {
            cell.set_phase(Phase::Cold);
            // A respawn brings no journal either.
            refuse_all(local, cell, &Refused::not_found().into());
        }
        Why::Fault(fault) => fall(local, cell, fault.clone(), Fallen::Fault(fault)),
        Why::Panicked => fall(local, cell, not_durable(), Fallen::Panicked),
        Why::Unreadable(fault) => load::unreadable(local, cell, fault),
    }
}

/// Room that no written message holds is given back; whoever waits for an answer sends again.
fn settle(local: &Local, cell: &Arc<Cell>, mut machine: Machine, why: &Why) {
    let flushed = Input::Flushed { ticket: cell.proof.flushed() };
    let now = local.shared.clock.steady();
    // After a panic the machine may be between two states.
    let stepped = catch_unwind(AssertUnwindSafe(|| machine.step([flushed], now)));
    if let Ok(effects) = stepped {
        for action in effects.actions {
            if let Action::Release { count } = action {
                cell.release(count);
            }
        }
    }
    if matches!(why, Why::Unload | Why::Stop) {
        return;
    }
    for (target, count) in machine.unproved() {
        local.shared.cell(target).release(count);
    }
    // One that has something unanswered is in memory, or on its way there.
    for from in machine.heard().filter(|from| local.shared.is_awake(*from)) {
        tell_lost(local, cell, from);
    }
}

fn tell_lost(local: &Local, cell: &Arc<Cell>, from: SessionId) {
    let lost = Input::Lost { target: cell.id() };
    local.shared.cell(from).push(Control::Input(lost));
}

fn fall(local: &Local, cell: &Arc<Cell>, fault: Fault, why: Fallen) {
    tracing::error!(session = %cell.id(), %fault, "a session's load has fallen");
    local.shared.look_for_fault();
    cell.set_phase(Phase::Fallen(fault));
    tell(local, cell, why);
}

/// Tells the supervisor.
pub(super) fn tell(local: &Local, cell: &Arc<Cell>, why: Fallen) {
    local.shared.supervisor.ask(Request::Fallen { id: cell.id(), why });
}

/// A fallen session: what arrives waits for the supervisor's word.
pub(super) fn await_word(local: &Rc<Local>, cell: &Arc<Cell>, fault: &Fault) {
    if local.shared.is_closing() {
        return cell.shut();
    }
    match cell.take_word() {
        None => {}
        Some(Control::Withhold) => {
            cell.set_phase(Phase::Quarantined(fault.clone()));
            cell.wake();
        }
        Some(Control::Fail { for_good }) => {
            if for_good {
                cell.set_failed_for_good();
            }
            if cell.set_failed() {
                // It falls without its agent too: what is left of its mail waits for a restart.
                cell.set_phase(Phase::Quarantined(fault.clone()));
                return cell.wake();
            }
            cell.set_phase(Phase::Cold);
            cell.push(Control::Load);
        }
        Some(_) => {
            cell.set_phase(Phase::Cold);
            cell.push(Control::Load);
        }
    }
}

/// A session that cannot be read: mail stays with its senders, calls are answered with the fault.
pub(super) fn turn_away(local: &Rc<Local>, cell: &Arc<Cell>, fault: &Fault) {
    if local.shared.is_closing() {
        return cell.shut();
    }
    // The word may come between two looks: who refuses the rest must not lose it.
    let respawn = matches!(cell.take_word(), Some(Control::Respawn));
    if respawn || refuse_all(local, cell, &fault.clone().into()) {
        cell.set_phase(Phase::Cold);
        cell.push(Control::Load);
    }
}

/// Refuses what waits in the lanes. Returns whether the word to load again was among it.
fn refuse_all(local: &Local, cell: &Arc<Cell>, error: &Error) -> bool {
    let mut control = Vec::new();
    let taken = cell.take(usize::MAX, usize::MAX, &mut control);
    let respawn = control.iter().any(|control| matches!(control, Control::Respawn));
    for control in control {
        refuse(local, control, error);
    }
    for mail in taken.mail {
        let busy = Input::Busy { target: cell.id(), first: mail.first };
        mail.from.push(Control::Input(busy));
    }
    cell.settle_down();
    respawn
}

fn refuse(local: &Local, control: Control, error: &Error) {
    let error = error.clone();
    match control {
        Control::Create { reply, .. }
        | Control::Acknowledge { reply, .. }
        | Control::Arrived { reply }
        | Control::Close { reply } => answer(reply, Err(error)),
        Control::Send(send) => answer(send.reply, Err(error)),
        Control::Stage { reply, .. } => answer(reply, Err(error)),
        Control::Attach { reply } => answer(reply, Err(error)),
        Control::Take { reply, .. } => answer(reply, Err(error)),
        Control::Inspect { reply } => answer(reply, Err(error)),
        Control::Granted { target } => local.shared.cell(target).release(1),
        Control::Load
        | Control::Input(_)
        | Control::Routed { .. }
        | Control::Delivers { .. }
        | Control::Unrouted { .. }
        | Control::Revoke { .. }
        | Control::Leave { .. }
        | Control::Detach { .. }
        | Control::Faulted
        | Control::Snapshot
        | Control::Respawn
        | Control::Withhold
        | Control::Fail { .. }
        | Control::Stop => {}
    }
}

fn not_durable() -> Fault {
    Fault::new(
        Code::NotDurable,
        "the session's load ended first: whether it is on disk is not known",
    )
}
