//! What a session's actor does with what its control lane holds.
//!
//! **Boundary**: nothing is decided here that the machine decides; what is for it is queued for it.

use super::control::{Control, Send};
use super::outgoing::{Parcel, Prepared, answer};
use super::resident::{Caller, Resident};
use crate::error::{Code, Ended, Refused};
use crate::protocol::session::Input;
use crate::protocol::{MessageId, SourceKind};

impl Resident {
    pub(super) fn receive(&mut self, control: Control) {
        let mut ready = Vec::new();
        match control {
            Control::Create { reply, .. } => {
                let taken = Refused::new(Code::IdTaken, "the id is, or once was, in use");
                answer(reply, Err(taken.into()));
            }
            Control::Load | Control::Respawn | Control::Withhold => {}
            Control::Send(send) => self.send(send, &mut ready),
            Control::Stage { draft, reply } => {
                let hop = self.hop(draft.cause);
                self.outgoing.borrow_mut().stage(draft, hop, reply, &mut ready);
            }
            Control::Arrived { reply } => self.body_asks(reply),
            Control::Input(input) => self.batch.push_back(input),
            Control::Routed { target, route } => {
                self.outgoing.borrow_mut().routed(target, route, &mut ready);
            }
            Control::Delivers { target, route } => {
                let parcels = self.outgoing.borrow_mut().delivers(target, route.clone());
                for parcel in parcels {
                    self.hand_over(&route, parcel);
                }
            }
            Control::Unrouted { target } => {
                self.outgoing.borrow_mut().unrouted(target, &mut ready);
            }
            Control::Revoke { target } => {
                if self.outgoing.borrow_mut().revoke(target, &mut ready) {
                    self.batch.push_back(Input::HoldWish { held: false });
                }
            }
            Control::Granted { target } => self.granted(target, &mut ready),
            Control::Attach { .. }
            | Control::Take { .. }
            | Control::Leave { .. }
            | Control::Acknowledge { .. }
            | Control::Detach { .. } => self.drive(control),
            Control::Inspect { reply } => {
                let call = self.call(Caller::Inspect(reply));
                self.batch.push_back(Input::Inspect { call });
            }
            Control::Close { reply } => {
                let call = self.call(Caller::Close(reply));
                self.batch.push_back(Input::Close { call });
            }
            Control::Faulted => {
                if let Some(fault) = self.local.shared.store.fault() {
                    self.body_faults(&fault);
                }
            }
            Control::Snapshot => self.snapshot_wanted = true,
            Control::Fail { for_good } => self.fail(for_good),
            Control::Stop => self.stop(),
        }
        for Prepared { reply, wait_for_room, staged } in ready {
            let call = self.call(Caller::Send { reply, wait_for_room });
            staged.reservation.keep();
            self.batch.push_back(Input::Send { call, sends: vec![staged.addressed] });
        }
    }

    fn send(&mut self, send: Send, ready: &mut Vec<Prepared>) {
        let stopping = self.stop_at.is_some() && send.kind == SourceKind::Driver;
        if stopping || self.machine.state().closed {
            return answer(send.reply, Err(Ended::Closed.into()));
        }
        let hop = self.hop(send.draft.cause);
        self.outgoing.borrow_mut().send(send, hop, ready);
    }

    /// One more than the hop of the message of the open turn that causes this one.
    fn hop(&self, cause: Option<MessageId>) -> u32 {
        let Some(cause) = cause else { return 0 };
        let taken = self.machine.state().turn.iter().flat_map(|turn| &turn.taken);
        let hops = taken.filter(|item| item.message.id == cause);
        hops.map(|item| item.message.source.hop + 1).next().unwrap_or(0)
    }

    fn granted(&mut self, target: crate::protocol::SessionId, ready: &mut Vec<Prepared>) {
        if !self.outgoing.borrow_mut().granted(target, ready) {
            return;
        }
        let state = self.machine.state();
        if state.turn.is_none() && state.again.is_none() {
            self.outgoing.borrow_mut().give_back_grants();
        }
        self.batch.push_back(Input::HoldWish { held: false });
    }

    /// From now on the session has no agent.
    fn fail(&mut self, for_good: bool) {
        self.cell.set_failed();
        self.let_body_go();
        self.batch.push_back(Input::Interrupt);
        self.batch.push_back(Input::NotReady);
        if for_good {
            self.cell.set_failed_for_good();
            self.batch.push_back(Input::Bury);
        }
    }

    fn stop(&mut self) {
        let now = self.local.shared.clock.steady();
        self.stop_at = Some(now.after(self.local.shared.config.life.stop_max));
        self.body_stops();
        self.batch.push_back(Input::NotReady);
    }

    /// Hands a dispatch to its target, in pieces that fit a frame; where the target is busy, the
    /// rest stays here.
    pub(super) fn hand_over(&mut self, route: &super::request::Route, parcel: Parcel) {
        let Parcel { mut first, messages, settled } = parcel;
        let bytes_max = self.local.shared.config.store.frame_max / 2;
        let mut rest = messages;
        while !rest.is_empty() {
            let (mut count, mut bytes) = (0, 0);
            for message in &rest {
                let more = crate::protocol::session::queued_bound(message);
                if count > 0 && bytes + more > bytes_max {
                    break;
                }
                count += 1;
                bytes += more;
            }
            let later = rest.split_off(count);
            let mail = super::cell::Mail {
                from: std::sync::Arc::clone(&self.cell),
                first,
                messages: rest,
                bytes,
                settled,
                verdict: route.verdict,
            };
            if route.cell.push_mail(mail).is_err() {
                self.batch.push_back(Input::Busy { target: route.cell.id(), first });
                return;
            }
            first += count as u64;
            rest = later;
        }
    }
}
