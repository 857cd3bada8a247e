//! Turns: what is taken, tried again, handled, or dead.
//!
//! **Invariant**: an attempt is on disk before the agent sees its messages; a turn's end and its
//! staged sends are one frame; mail that arrives before the end is decided is offered first.

use super::backoff::backoff;
use super::event::{Dead, DeadReason, Event, Failure, Outcome, TurnOutcome};
use super::input::{Action, Call, End};
use super::machine::{Machine, Step};
use super::state::Item;
use crate::protocol::id::Timestamp;

/// A failure's message is cut to this many characters.
pub(super) const FAILURE_CHARS_MAX: usize = 500;
/// A failure's code is cut to this many characters.
const CODE_CHARS_MAX: usize = 64;

impl Machine {
    /// Begins a turn when the body can take one and there is something to take.
    pub(super) fn begin_turn(&mut self, step: &mut Step) {
        let closing = self.state.closed || self.live.burying.is_some();
        if !self.live.ready || self.state.turn.is_some() || closing {
            return;
        }
        let Some(taken) = self.to_take(step.now) else { return };
        self.live.ready = false;
        let turn = self.state.turns + 1;
        let items = self.state.inbox.iter().take(taken.len());
        let n_untaken = items.clone().filter(|item| item.attempts == 0).count() as u64;
        let wish = if taken.is_empty() { self.state.again } else { None };
        let attempt = items.map(|item| item.attempts).chain(wish).max().unwrap_or(0) + 1;
        self.record(step, Event::TurnStarted { turn, attempt, taken });
        let items = self.state.turn.as_ref().map(|turn| turn.taken.clone()).unwrap_or_default();
        self.release(step, n_untaken);
        step.after.push(Action::Begin { turn, attempt, items });
    }

    /// The arrivals that the next turn would take: messages that failed before go one at a time,
    /// after their backoff. None: there is no turn to begin.
    fn to_take(&self, now: Timestamp) -> Option<Vec<u64>> {
        let front = self.state.inbox.front();
        let attempts = self.tried_in_front()?;
        if attempts > 0 && self.live.not_before.is_some_and(|at| at > now) {
            return None;
        }
        match front {
            None => Some(Vec::new()),
            Some(_) if attempts == 0 => Some(self.untried(self.limits.steers_max)),
            Some(front) => Some(vec![front.arrival]),
        }
    }

    /// How often what the next turn would begin with was tried; none: there is nothing.
    pub(super) fn tried_in_front(&self) -> Option<u32> {
        let wish = self.state.again.filter(|_| !self.live.wish_held);
        self.state.inbox.front().map(Item::tries).or(wish)
    }

    fn untried(&self, most: usize) -> Vec<u64> {
        let untried = self.state.inbox.iter().take_while(|item| item.tries() == 0);
        untried.take(most).map(|item| item.arrival).collect()
    }

    /// The open turn asks what has arrived since.
    pub(super) fn steer(&mut self, step: &mut Step, turn: u64) {
        if !self.is_open(turn) || !self.offer_more(step) {
            step.at_once.push(Action::Steered { items: Vec::new() });
        }
    }

    /// A body may still speak of a turn that is over while the next one is on its way to it.
    fn is_open(&self, turn: u64) -> bool {
        self.state.turn.as_ref().is_some_and(|open| open.number == turn)
    }

    /// Offers mail to the open turn, within the limit of steers; a turn that tries a message again
    /// has it alone.
    fn offer_more(&mut self, step: &mut Step) -> bool {
        let Some(open) = &self.state.turn else { return false };
        let (turn, n_taken) = (open.number, open.taken.len());
        let wish = open.attempt > 1 && open.taken.is_empty();
        let alone = wish || open.taken.iter().any(|item| item.tries() > 1);
        let room = self.limits.steers_max.saturating_sub(n_taken);
        let taken = if alone { Vec::new() } else { self.untried(room) };
        if taken.is_empty() {
            return false;
        }
        let items = self.state.inbox.iter().take(taken.len());
        let n_untaken = items.filter(|item| item.attempts == 0).count() as u64;
        self.record(step, Event::Taken { turn, taken });
        let open = self.state.turn.as_ref();
        let items = open.and_then(|open| open.taken.get(n_taken..)).unwrap_or_default().to_vec();
        self.release(step, n_untaken);
        step.after.push(Action::Steered { items });
        true
    }

    /// The open turn wants to end; it goes on where mail has arrived.
    pub(super) fn end(&mut self, step: &mut Step, end: End) {
        if !self.is_open(end.turn) || (!end.firm && self.offer_more(step)) {
            return;
        }
        let Some(open) = &self.state.turn else { return };
        let turn = open.number;
        let handled = open.taken.iter().map(|item| item.arrival).collect();
        let receipts = self.queue(step, end.sends);
        let outcome = TurnOutcome::Completed;
        let (state, again) = (end.state, end.again);
        self.record(step, Event::TurnEnded { turn, outcome, handled, state, again });
        step.after.push(Action::Ended { turn, receipts });
        self.live.ready = end.ready;
    }

    /// The open turn failed: its messages are tried again, one at a time, or are dead.
    pub(super) fn fail(&mut self, step: &mut Step, turn: u64, failure: Failure) {
        if !self.is_open(turn) {
            return;
        }
        let code = failure.code.chars().take(CODE_CHARS_MAX).collect();
        let message = failure.message.chars().take(FAILURE_CHARS_MAX).collect();
        self.break_off(step, TurnOutcome::Failed(Failure { code, message }));
    }

    /// The open turn is over and nothing has failed: its driver let go, or the bus stops.
    pub(super) fn give_back(&mut self, step: &mut Step) {
        self.break_off(step, TurnOutcome::GivenBack);
    }

    /// The open turn ended without its agent's doing: a crash, a respawn.
    pub(super) fn interrupt(&mut self, step: &mut Step) {
        self.break_off(step, TurnOutcome::Interrupted);
    }

    fn break_off(&mut self, step: &mut Step, outcome: TurnOutcome) {
        let Some(open) = &self.state.turn else { return };
        let turn = open.number;
        let tried = open.attempt - u32::from(outcome == TurnOutcome::GivenBack);
        let try_again = open.wished && tried < self.limits.attempts_max;
        let again = self.state.again.is_some() || try_again;
        self.record(
            step,
            Event::TurnEnded { turn, outcome, handled: Vec::new(), state: None, again },
        );
        step.after.push(Action::Ended { turn, receipts: Vec::new() });
        let spent = |item: &Item| item.tries() >= self.limits.attempts_max;
        let spent: Vec<Item> =
            self.state.inbox.iter().filter(|item| spent(item)).cloned().collect();
        self.bury(step, spent, DeadReason::Attempts);
        let attempts = self.tried_in_front().unwrap_or(0);
        let wait = backoff(self.limits.retry_backoff, attempts.saturating_sub(1));
        self.live.not_before = (attempts > 0).then(|| step.now.after(wait));
    }

    fn bury(&mut self, step: &mut Step, items: Vec<Item>, reason: DeadReason) {
        let mut senders = Vec::new();
        for Item { arrival, from, n, message, .. } in items {
            let number = self.state.reports.get(&from).map_or(1, |report| report.next);
            let outcome = Outcome { number, n, id: message.id, reason };
            self.record(step, Event::Dead(Dead { arrival, from, outcome }));
            if !senders.contains(&from) {
                senders.push(from);
            }
        }
        for sender in senders {
            self.report(step, sender);
        }
    }

    /// Takes no turn and accepts no mail any more: what is accepted and not handled is dead.
    pub(super) fn close(&mut self, step: &mut Step, call: Call) {
        if self.state.closed {
            step.after.push(Action::Closed { call });
            return;
        }
        self.live.closing.push(call);
        self.bury_all(step, DeadReason::Closed);
    }

    /// The session ends by this: what is accepted and not handled is dead, then it is closed.
    pub(super) fn bury_all(&mut self, step: &mut Step, reason: DeadReason) {
        if self.state.closed {
            return;
        }
        self.live.burying.get_or_insert(reason);
        self.break_off(step, TurnOutcome::Interrupted);
        self.go_on_burying(step);
    }

    /// Buries as much as one frame may hold; the next flush goes on, until all is buried.
    pub(super) fn go_on_burying(&mut self, step: &mut Step) {
        let Some(reason) = self.live.burying else { return };
        let items: Vec<Item> = self.state.inbox.iter().take(self.burials_max()).cloned().collect();
        let n_untaken = items.iter().filter(|item| item.attempts == 0).count() as u64;
        self.bury(step, items, reason);
        self.release(step, n_untaken);
        if self.state.inbox.is_empty() {
            self.record(step, Event::Closed);
            self.live.burying = None;
            let calls = std::mem::take(&mut self.live.closing);
            step.after.extend(calls.into_iter().map(|call| Action::Closed { call }));
        }
    }

    fn release(&mut self, step: &mut Step, count: u64) {
        if count > 0 {
            step.after.push(Action::Release { count });
        }
    }
}
