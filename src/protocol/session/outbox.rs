//! The sender's side: numbers, the window, what to send again.
//!
//! **Invariant**: a number is given once; nothing is dispatched before its `queued` is on disk; per
//! target, dispatches leave in order, at most a window of them unanswered.

use std::sync::Arc;

use super::backoff::backoff;
use super::event::Event;
use super::input::{Action, Addressed, Answer, Receipt};
use super::live::Unanswered;
use super::machine::{Machine, Step};
use crate::protocol::id::{SessionId, Timestamp};

impl Machine {
    /// Gives each message its number. Routes, sizes and room were checked by the caller.
    pub(super) fn queue(&mut self, step: &mut Step, sends: Vec<Addressed>) -> Vec<Receipt> {
        let mut receipts = Vec::with_capacity(sends.len());
        for Addressed { target, message } in sends {
            let lane = self.state.lanes.get(&target);
            let n = lane.map_or(1, |lane| lane.next);
            self.live.lane(target, lane);
            receipts.push(Receipt { id: message.id, target, n });
            self.record(step, Event::Queued { target, n, message });
        }
        receipts
    }

    /// Dispatches what is durable and fits the window.
    pub(super) fn flow(&mut self, step: &mut Step, target: SessionId) {
        let Some(lane) = self.state.lanes.get(&target) else { return };
        let live = self.live.lane(target, Some(lane));
        live.dispatched = live.dispatched.max(lane.settled);
        let last = live.durable.min(lane.settled + self.limits.window);
        if live.dispatched >= last {
            return;
        }
        if live.held {
            // The target may forget to call: the backoff ends every wait.
            if live.waiting.is_none() {
                self.await_answer(step.now, target);
            }
            return;
        }
        let first = live.dispatched + 1;
        let messages: Vec<_> = lane.range(first, last).map(Arc::clone).collect();
        live.dispatched = last;
        let settled = live.settled;
        step.at_once.push(Action::Dispatch { target, first, messages, settled });
        self.await_answer(step.now, target);
    }

    /// Sees to it that an unanswered dispatch is looked at again.
    fn await_answer(&mut self, now: Timestamp, target: SessionId) {
        let live = self.live.lane(target, self.state.lanes.get(&target));
        let tries = live.waiting.map_or(0, |waiting| waiting.tries);
        let wait = backoff(self.limits.resend_after, tries);
        let again_at = now.after(wait);
        live.waiting = Some(Unanswered { upto: 0, again_at, tries });
        self.live.look_at = Some(self.live.look_at.map_or(again_at, |at| at.min(again_at)));
    }

    /// A target says what it has decided.
    pub(super) fn answered(&mut self, step: &mut Step, target: SessionId, answer: Answer) {
        let Answer { upto, refused, gap } = answer;
        let Some(lane) = self.state.lanes.get(&target) else { return };
        if upto >= lane.next {
            return;
        }
        if upto > lane.settled {
            let newly = refused.into_iter().filter(|refusal| refusal.n > lane.settled);
            let refused = newly.filter(|refusal| refusal.n <= upto).collect();
            self.record(step, Event::Delivered { target, upto, refused });
            self.progressed(step.now, target);
        }
        if let Some(load) = gap {
            let live = self.live.lane(target, self.state.lanes.get(&target));
            if live.last_gap != Some((upto, load)) {
                live.last_gap = Some((upto, load));
                live.dispatched = upto;
            }
        }
        self.flow(step, target);
    }

    /// An answer moved the lane: the backoff begins anew, or nothing is unanswered any more.
    fn progressed(&mut self, now: Timestamp, target: SessionId) {
        let Some(lane) = self.state.lanes.get(&target) else { return };
        let live = self.live.lane(target, Some(lane));
        live.waiting = None;
        if live.dispatched > lane.settled {
            self.await_answer(now, target);
        }
    }

    /// A target had no room for numbers from `first` on: it calls, or the backoff ends.
    pub(super) fn busy(&mut self, step: &mut Step, target: SessionId, first: u64) {
        let Some(lane) = self.state.lanes.get(&target) else { return };
        let settled = lane.settled;
        let live = self.live.lane(target, Some(lane));
        live.held = true;
        live.dispatched = live.dispatched.min(first.saturating_sub(1)).max(settled);
        self.await_answer(step.now, target);
    }

    /// A busy target calls.
    pub(super) fn room(&mut self, step: &mut Step, target: SessionId) {
        if let Some(live) = self.live.lanes.get_mut(&target) {
            live.held = false;
        }
        self.flow(step, target);
    }

    /// What is on its way to a target, or to its report lane, was lost with its load.
    pub(super) fn lost(&mut self, step: &mut Step, target: SessionId) {
        self.send_again(step, target);
        self.live.reported.remove(&target);
        self.report(step, target);
    }

    fn send_again(&mut self, step: &mut Step, target: SessionId) {
        let Some(lane) = self.state.lanes.get(&target) else { return };
        let settled = lane.settled;
        let live = self.live.lane(target, Some(lane));
        live.held = false;
        live.dispatched = settled;
        self.flow(step, target);
    }

    /// Time has passed: sends again what was not answered for long enough.
    pub(super) fn look_again(&mut self, step: &mut Step) {
        if self.live.look_at.is_none_or(|at| at > step.now) {
            return;
        }
        self.live.look_at = None;
        let now = step.now;
        let waiting: Vec<(SessionId, Unanswered)> = self
            .live
            .lanes
            .iter()
            .filter_map(|(target, lane)| lane.waiting.map(|waiting| (*target, waiting)))
            .collect();
        for (target, waiting) in waiting {
            if waiting.again_at > now {
                let at = self.live.look_at.map_or(waiting.again_at, |at| at.min(waiting.again_at));
                self.live.look_at = Some(at);
                continue;
            }
            let live = self.live.lane(target, self.state.lanes.get(&target));
            live.waiting = Some(Unanswered { tries: waiting.tries.saturating_add(1), ..waiting });
            self.send_again(step, target);
        }
        self.report_again(step);
    }
}
