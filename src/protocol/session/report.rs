//! Outcomes that are told later: the acknowledgement lane's own numbers and marks.
//!
//! **Invariant**: an outcome is told until its receiver has noted it durably, and noted once.

use super::backoff::backoff;
use super::event::{Event, Outcome};
use super::input::Action;
use super::live::Unanswered;
use super::machine::{Machine, Step};
use crate::protocol::id::SessionId;

impl Machine {
    /// Tells a sender what it has not noted, once the newest append is on disk; more than fits one
    /// frame is told in pieces, each after the last is noted.
    pub(super) fn report(&mut self, step: &mut Step, to: SessionId) {
        if let Some(action) = self.outcomes_for(step, to) {
            step.after.push(action);
        }
    }

    fn outcomes_for(&mut self, step: &Step, to: SessionId) -> Option<Action> {
        let report = self.state.reports.get(&to).filter(|report| !report.untold.is_empty())?;
        let outcomes: Vec<Outcome> =
            report.untold.iter().take(self.outcomes_max()).cloned().collect();
        let upto = outcomes.last().map_or(0, |outcome| outcome.number);
        let tries = self.live.reported.get(&to).map_or(0, |sent| sent.tries);
        let wait = backoff(self.limits.resend_after, tries);
        let again_at = step.now.after(wait);
        self.live.reported.insert(to, Unanswered { upto, again_at, tries });
        self.live.look_at = Some(self.live.look_at.map_or(again_at, |at| at.min(again_at)));
        Some(Action::Report { to, outcomes })
    }

    /// Outcomes of own messages: the next ones are noted, known ones acknowledged again.
    pub(super) fn reported(&mut self, step: &mut Step, from: SessionId, outcomes: Vec<Outcome>) {
        let noted = self.state.noted.get(&from).copied().unwrap_or(0);
        let fresh = outcomes.into_iter().filter(|outcome| outcome.number > noted);
        let fresh: Vec<Outcome> =
            fresh.zip(noted + 1..).take_while(|(o, n)| o.number == *n).map(|(o, _)| o).collect();
        if let Some(last) = fresh.last() {
            let upto = last.number;
            self.record(step, Event::OutcomeNoted { from, upto, outcomes: fresh });
        }
        let upto = self.state.noted.get(&from).copied().unwrap_or(0);
        step.after.push(Action::ReportAnswer { to: from, upto });
    }

    /// A sender has noted outcomes.
    pub(super) fn report_answered(&mut self, step: &mut Step, sender: SessionId, upto: u64) {
        let Some(report) = self.state.reports.get(&sender) else { return };
        let known = report.next - 1 - report.untold.len() as u64;
        if upto >= report.next {
            return;
        }
        if upto > known {
            self.record(step, Event::Told { sender, upto });
        }
        if self.live.reported.get(&sender).is_some_and(|sent| sent.upto <= upto) {
            self.live.reported.remove(&sender);
            self.report(step, sender);
        }
    }

    /// Time has passed: tells again what was not answered for long enough.
    pub(super) fn report_again(&mut self, step: &mut Step) {
        let sent: Vec<(SessionId, Unanswered)> =
            self.live.reported.iter().map(|(sender, sent)| (*sender, *sent)).collect();
        for (sender, sent) in sent {
            if sent.again_at > step.now {
                let at = self.live.look_at.map_or(sent.again_at, |at| at.min(sent.again_at));
                self.live.look_at = Some(at);
                continue;
            }
            let tries = sent.tries.saturating_add(1);
            self.live.reported.insert(sender, Unanswered { tries, ..sent });
            self.report(step, sender);
        }
    }
}
