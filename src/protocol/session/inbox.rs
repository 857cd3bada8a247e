//! The target's side: one rule decides every number, once.
//!
//! **Invariant**: a number at or below the mark is acknowledged again and writes nothing; one above
//! the next leaves a gap and writes nothing; the next one moves the mark with its decision, both or
//! none.

use std::sync::Arc;

use super::event::{Event, Reason, Refusal};
use super::input::{Action, Answer, Verdict};
use super::machine::{Machine, Step};
use crate::protocol::id::SessionId;
use crate::protocol::message::Message;

impl Machine {
    /// A dispatch from a sender.
    pub(super) fn mail(
        &mut self,
        step: &mut Step,
        from: SessionId,
        first: u64,
        messages: Vec<Arc<Message>>,
        (settled, verdict): (u64, Verdict),
    ) {
        let mut gap = false;
        let mut n_refused = 0;
        for (n, message) in (first..).zip(messages) {
            let high_water = self.state.marks.get(&from).map_or(0, |mark| mark.high_water);
            if n <= high_water {
                self.live.duplicates += 1;
                continue;
            }
            if n > high_water + 1 {
                gap = true;
                break;
            }
            match self.refuses(verdict) {
                Some(reason) => {
                    let refusal = Refusal { n, reason };
                    n_refused += 1;
                    self.record(step, Event::Refused { from, refusal, id: message.id, settled });
                }
                None => {
                    let arrival = self.state.arrivals + 1;
                    self.record(step, Event::Accepted { from, n, arrival, settled, message });
                }
            }
        }
        if n_refused > 0 {
            step.after.push(Action::Release { count: n_refused });
        }
        match step.answers.iter_mut().find(|(sender, _)| *sender == from) {
            Some((_, left_gap)) => *left_gap |= gap,
            None => step.answers.push((from, gap)),
        }
    }

    fn refuses(&self, verdict: Verdict) -> Option<Reason> {
        match verdict {
            Verdict::Revoked => Some(Reason::Revoked),
            Verdict::Closed => Some(Reason::Closed),
            Verdict::Allowed => {
                let closing = self.state.closed || self.live.burying.is_some();
                closing.then_some(Reason::Closed)
            }
        }
    }

    /// One cumulative answer to each sender that this step heard from.
    pub(super) fn answer_senders(&mut self, step: &mut Step) {
        for (to, gap) in std::mem::take(&mut step.answers) {
            let mark = self.state.marks.get(&to);
            let upto = mark.map_or(0, |mark| mark.high_water);
            let refused = mark.map(|mark| mark.refusals.clone()).unwrap_or_default();
            let gap = gap.then_some(self.live.load);
            step.after.push(Action::Answer { to, answer: Answer { upto, refused, gap } });
        }
    }
}
