//! The only place where a session's state changes.
//!
//! **Invariant**: an event is checked whole before anything is touched; an illegal one leaves the
//! state as it was, live and in replay.

use std::sync::Arc;

use super::event::{Dead, Event, Outcome, Refusal, TurnOutcome};
use super::state::{Item, Mark, OpenTurn, State};
use crate::protocol::id::SessionId;
use crate::protocol::message::Message;

/// An event that cannot follow what came before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("illegal event: {0}")]
pub struct Illegal(pub &'static str);

fn check(legal: bool, otherwise: &'static str) -> Result<(), Illegal> {
    if legal { Ok(()) } else { Err(Illegal(otherwise)) }
}

impl State {
    /// Applies one event.
    ///
    /// # Errors
    /// [`Illegal`] when the event cannot follow what came before; the state is unchanged.
    pub fn apply(&mut self, event: &Event) -> Result<(), Illegal> {
        let first = matches!(event, Event::Created(_));
        check(first == self.created.is_none(), "creation comes first and once")?;
        match event {
            Event::Created(created) => {
                self.created = Some(created.clone());
                Ok(())
            }
            Event::Queued { target, n, message } => self.queued(*target, *n, message),
            Event::Delivered { target, upto, refused } => self.delivered(*target, *upto, refused),
            Event::Accepted { from, n, arrival, settled, message } => {
                let item = Item {
                    arrival: *arrival,
                    from: *from,
                    n: *n,
                    attempts: 0,
                    given_back: 0,
                    message: Arc::clone(message),
                };
                self.accepted(item, *settled)
            }
            Event::Refused { from, refusal, id: _, settled } => {
                self.refused(*from, *refusal, *settled)
            }
            Event::TurnStarted { turn, attempt, taken } => {
                self.turn_started(*turn, *attempt, taken)
            }
            Event::Taken { turn, taken } => self.taken(*turn, taken),
            Event::TurnEnded { turn, outcome, handled, state, again } => {
                let completed = *outcome == TurnOutcome::Completed;
                check(completed || state.is_none(), "a turn that failed keeps a state")?;
                self.turn_ended((*turn, outcome), handled, *again)?;
                if let Some(state) = state {
                    self.agent = Some(state.clone());
                }
                Ok(())
            }
            Event::Dead(dead) => self.dead(dead),
            Event::Told { sender, upto } => self.told(*sender, *upto),
            Event::OutcomeNoted { from, upto, outcomes } => {
                self.outcome_noted(*from, *upto, outcomes)
            }
            Event::Closed => {
                check(!self.closed, "closed twice")?;
                check(self.turn.is_none(), "closed in a turn")?;
                check(self.inbox.is_empty(), "closed with accepted mail")?;
                self.closed = true;
                Ok(())
            }
        }
    }

    fn queued(&mut self, target: SessionId, n: u64, message: &Arc<Message>) -> Result<(), Illegal> {
        let next = self.lanes.get(&target).map_or(1, |lane| lane.next);
        check(n == next, "a queued number is not the next one")?;
        let lane = self.lanes.entry(target).or_default();
        lane.next += 1;
        lane.unsettled.push_back(Arc::clone(message));
        self.n_unsettled += 1;
        self.counts.queued += 1;
        Ok(())
    }

    fn delivered(
        &mut self,
        target: SessionId,
        upto: u64,
        refused: &[Refusal],
    ) -> Result<(), Illegal> {
        let lane = self.lanes.get_mut(&target).ok_or(Illegal("settled a lane without mail"))?;
        check(upto > lane.settled && upto < lane.next, "settled outside the unsettled")?;
        let newly = |refusal: &Refusal| refusal.n > lane.settled && refusal.n <= upto;
        check(refused.iter().all(newly), "a refusal outside the newly settled")?;
        check(refused.is_sorted_by(|one, next| one.n < next.n), "refusals out of order")?;
        let count = upto - lane.settled;
        for _ in 0..count {
            lane.unsettled.pop_front();
        }
        lane.settled = upto;
        self.n_unsettled -= count;
        Ok(())
    }

    /// Moves a sender's mark by one; checks that it is the next number.
    fn decide(&mut self, from: SessionId, n: u64, settled: u64) -> Result<&mut Mark, Illegal> {
        let high_water = self.marks.get(&from).map_or(0, |mark| mark.high_water);
        check(n == high_water + 1, "a decided number is not the next one")?;
        check(settled < n, "settled at or above an undecided number")?;
        let mark = self.marks.entry(from).or_default();
        mark.high_water = n;
        mark.settled = mark.settled.max(settled);
        let settled = mark.settled;
        mark.refusals.retain(|refusal| refusal.n > settled);
        Ok(mark)
    }

    fn accepted(&mut self, item: Item, settled: u64) -> Result<(), Illegal> {
        check(!self.closed, "accepted after the close")?;
        check(item.arrival == self.arrivals + 1, "an arrival is not the next one")?;
        self.decide(item.from, item.n, settled)?;
        self.arrivals = item.arrival;
        self.inbox.push_back(item);
        self.counts.accepted += 1;
        Ok(())
    }

    fn refused(&mut self, from: SessionId, refusal: Refusal, settled: u64) -> Result<(), Illegal> {
        self.decide(from, refusal.n, settled)?.refusals.push(refusal);
        self.counts.refused += 1;
        Ok(())
    }

    fn turn_started(&mut self, turn: u64, attempt: u32, taken: &[u64]) -> Result<(), Illegal> {
        check(!self.closed, "a turn after the close")?;
        check(self.turn.is_none(), "a turn within a turn")?;
        check(turn == self.turns + 1, "a turn is not the next one")?;
        let tried = self.inbox.iter().take(taken.len()).map(|item| item.attempts);
        let wish = self.again.filter(|_| taken.is_empty());
        let tried = tried.chain(wish).max().ok_or(Illegal("a turn without mail or wish"))?;
        check(attempt == tried + 1, "an attempt is not the next one")?;
        let items = self.take(taken)?;
        self.turns = turn;
        let wished = taken.is_empty();
        if wished {
            self.again = None;
        }
        self.turn = Some(OpenTurn { number: turn, attempt, wished, taken: items });
        Ok(())
    }

    fn taken(&mut self, turn: u64, taken: &[u64]) -> Result<(), Illegal> {
        let open = self.turn.as_ref().is_some_and(|open| open.number == turn);
        check(open, "mail for a turn that is not open")?;
        check(!taken.is_empty(), "took nothing")?;
        let items = self.take(taken)?;
        if let Some(open) = &mut self.turn {
            open.taken.extend(items);
        }
        Ok(())
    }

    /// Takes arrivals from the front of the inbox, in their order; each counts an attempt.
    fn take(&mut self, taken: &[u64]) -> Result<Vec<Item>, Illegal> {
        let in_front = taken.len() <= self.inbox.len()
            && taken.iter().zip(&self.inbox).all(|(arrival, item)| *arrival == item.arrival);
        check(in_front, "took what is not in front of the inbox")?;
        let items = self.inbox.drain(..taken.len());
        Ok(items.map(|item| Item { attempts: item.attempts + 1, ..item }).collect())
    }

    fn turn_ended(
        &mut self,
        (turn, outcome): (u64, &TurnOutcome),
        handled: &[u64],
        again: bool,
    ) -> Result<(), Illegal> {
        let open = self.turn.take_if(|open| open.number == turn);
        let Some(open) = open else { return Err(Illegal("ended a turn that is not open")) };
        let all = open.taken.iter().map(|item| item.arrival).eq(handled.iter().copied());
        let legal = if *outcome == TurnOutcome::Completed { all } else { handled.is_empty() };
        if !legal {
            self.turn = Some(open);
            return Err(Illegal("a turn handled other than what it took"));
        }
        if *outcome == TurnOutcome::Completed {
            self.counts.handled += handled.len() as u64;
            self.again = again.then_some(0);
            return Ok(());
        }
        let given_back = u32::from(*outcome == TurnOutcome::GivenBack);
        let tried = if open.wished { open.attempt - given_back } else { self.again.unwrap_or(0) };
        self.again = again.then_some(tried);
        for mut item in open.taken.into_iter().rev() {
            item.given_back += given_back;
            self.inbox.push_front(item);
        }
        Ok(())
    }

    fn dead(&mut self, dead: &Dead) -> Result<(), Illegal> {
        let Dead { arrival, from, outcome } = dead;
        let place = self
            .inbox
            .iter()
            .position(|item| item.arrival == *arrival && item.from == *from && item.n == outcome.n);
        let place = place.ok_or(Illegal("dead is what the inbox does not hold"))?;
        let next = self.reports.get(from).map_or(1, |report| report.next);
        check(outcome.number == next, "an outcome's number is not the next one")?;
        self.inbox.remove(place);
        let report = self.reports.entry(*from).or_default();
        report.next += 1;
        report.untold.push_back(outcome.clone());
        self.n_untold += 1;
        self.counts.dead += 1;
        Ok(())
    }

    fn told(&mut self, sender: SessionId, upto: u64) -> Result<(), Illegal> {
        let report = self.reports.get_mut(&sender).ok_or(Illegal("told without an outcome"))?;
        let known = report.next - 1 - report.untold.len() as u64;
        check(upto > known && upto < report.next, "told outside the untold")?;
        for _ in known..upto {
            report.untold.pop_front();
        }
        self.n_untold -= upto - known;
        Ok(())
    }

    fn outcome_noted(
        &mut self,
        from: SessionId,
        upto: u64,
        outcomes: &[Outcome],
    ) -> Result<(), Illegal> {
        let noted = self.noted.get(&from).copied().unwrap_or(0);
        let in_order = outcomes.iter().map(|outcome| outcome.number).eq(noted + 1..=upto);
        check(in_order && upto > noted, "noted outcomes are not the next ones")?;
        self.noted.insert(from, upto);
        self.counts.told_dead += upto - noted;
        Ok(())
    }
}
