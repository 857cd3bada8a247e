//! Carrying out what the machine wants done.
//!
//! **Invariant**: an action comes here only when what it waits for is on disk.

use super::control::Receipt;
use super::outgoing::{Parcel, answer};
use super::resident::{Caller, Resident};
use crate::protocol::session::{Action, Call, Input};

impl Resident {
    pub(super) fn carry_out(&mut self, action: Action) {
        let me = self.cell.id();
        match action {
            Action::Receipts { call, receipts } => self.give_receipts(call, receipts),
            Action::Dispatch { target, first, messages, settled } => {
                let parcel = Parcel { first, messages, settled };
                let way = self.outgoing.borrow_mut().deliver(target, parcel);
                if let Some((route, parcel)) = way {
                    self.hand_over(&route, parcel);
                }
            }
            Action::Answer { to, answer } => self.tell(to, Input::Answer { target: me, answer }),
            Action::Report { to, outcomes } => self.tell(to, Input::Report { from: me, outcomes }),
            Action::ReportAnswer { to, upto } => {
                self.tell(to, Input::ReportAnswer { sender: me, upto });
            }
            Action::Begin { turn, attempt, items } => self.body_begins(turn, attempt, items),
            Action::Steered { items } => self.body_steers(items),
            Action::Ended { turn, receipts: _ } => self.body_ends(turn),
            Action::Release { count } => self.cell.release(count),
            Action::Closed { call } => {
                self.body_stops();
                if let Some(Caller::Close(reply)) = self.callers.remove(&call.0) {
                    answer(reply, Ok(()));
                }
            }
            Action::Inspected { call, inspection } => {
                if let Some(Caller::Inspect(reply)) = self.callers.remove(&call.0) {
                    answer(reply, Ok(Some(*inspection)));
                }
            }
        }
    }

    fn give_receipts(&mut self, call: Call, receipts: Vec<crate::protocol::session::Receipt>) {
        let durability = self.local.shared.config.store.durability;
        // Each call sends one message.
        let Some(receipt) = receipts.first() else { return };
        let (id, target, n) = (receipt.id, receipt.target, receipt.n);
        if let Some(Caller::Send { reply, .. }) = self.callers.remove(&call.0) {
            self.local.receipt(reply, Receipt { id, target, n, durability });
        }
    }
}
