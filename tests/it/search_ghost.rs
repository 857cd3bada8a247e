//! What an all-knowing observer writes down of the journals, to hold the promises against.
//!
//! **Invariant**: it learns from durable frames alone, and never asks the fold.

use std::collections::{BTreeMap, BTreeSet};

use callboard::protocol::session::{Action, Event, Reason, Receipt, TurnOutcome};
use callboard::protocol::{MessageId, SessionId};

/// A promise that was broken.
pub(crate) type Violation = &'static str;

pub(crate) const TWICE: Violation = "a number was accepted twice";
pub(crate) const BOTH: Violation = "a number was both refused and accepted";
pub(crate) const ORDER: Violation = "a number was decided before the one below it";
pub(crate) const UNKNOWN: Violation = "a message was decided that its sender does not hold";
pub(crate) const REUSED: Violation = "a number was given twice";
pub(crate) const EARLY_DISPATCH: Violation = "a dispatch left before its flush";
pub(crate) const EARLY_ANSWER: Violation = "an answer left before its flush";
pub(crate) const EARLY_MARK: Violation = "a settled mark left before it was on disk";
pub(crate) const SETTLED_TWICE: Violation = "a number was settled twice";
pub(crate) const NO_OUTCOME: Violation = "a queued message has no outcome";
pub(crate) const MISLED: Violation = "a sender settled otherwise than the target decided";

/// From one session (by index) to another.
pub(crate) type Pair = (SessionId, SessionId);

/// Everything durable that was ever decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Ghost {
    /// By (sender, target): what number n - 1 names.
    pub(crate) queued: BTreeMap<Pair, Vec<MessageId>>,
    /// By (sender, target): how number n - 1 was decided.
    pub(crate) decided: BTreeMap<Pair, Vec<(MessageId, Option<Reason>)>>,
    /// By (sender, target): what the sender has learned of it.
    pub(crate) learned: BTreeMap<Pair, Vec<Option<Reason>>>,
    /// By (sender, target): the dead numbers, in order.
    pub(crate) dead: BTreeMap<Pair, Vec<u64>>,
    /// By (sender, target): the dead numbers that the sender has noted.
    pub(crate) noted: BTreeMap<Pair, Vec<u64>>,
    /// By session: what its open turn has taken.
    pub(crate) open: BTreeMap<SessionId, Vec<u64>>,
    /// By (session, arrival): how often it was tried, without what was given back.
    pub(crate) tried: BTreeMap<(SessionId, u64), u32>,
    /// Arrivals that are handled or dead.
    pub(crate) finished: BTreeSet<(SessionId, u64)>,
}

fn ensure(kept: bool, otherwise: Violation) -> Result<(), Violation> {
    if kept { Ok(()) } else { Err(otherwise) }
}

impl Ghost {
    /// An event of `who` is on disk.
    pub(crate) fn note(&mut self, who: SessionId, event: &Event) -> Result<(), Violation> {
        match event {
            Event::Queued { target, n, message } => {
                let queued = self.queued.entry((who, *target)).or_default();
                ensure(*n == queued.len() as u64 + 1, REUSED)?;
                queued.push(message.id);
            }
            Event::Accepted { from, n, message, .. } => {
                self.decide((*from, who), *n, (message.id, None))?;
            }
            Event::Refused { from, refusal, id, .. } => {
                self.decide((*from, who), refusal.n, (*id, Some(refusal.reason)))?;
            }
            Event::Delivered { target, upto, refused } => {
                let learned = self.learned.entry((who, *target)).or_default();
                ensure(*upto > learned.len() as u64, SETTLED_TWICE)?;
                let decided = self.decided.entry((who, *target)).or_default();
                for n in learned.len() as u64 + 1..=*upto {
                    let reason = refused.iter().find(|r| r.n == n).map(|r| r.reason);
                    let truth = decided.get(n as usize - 1).map(|(_, reason)| *reason);
                    ensure(truth == Some(reason), MISLED)?;
                    learned.push(reason);
                }
            }
            Event::TurnStarted { taken, .. } | Event::Taken { taken, .. } => {
                for arrival in taken {
                    *self.tried.entry((who, *arrival)).or_default() += 1;
                }
                self.open.entry(who).or_default().extend(taken);
            }
            Event::TurnEnded { outcome, handled, .. } => {
                for arrival in self.open.remove(&who).unwrap_or_default() {
                    if *outcome == TurnOutcome::GivenBack {
                        *self.tried.entry((who, arrival)).or_default() -= 1;
                    }
                }
                for arrival in handled {
                    ensure(self.finished.insert((who, *arrival)), "a message ended twice")?;
                }
            }
            Event::Dead(dead) => {
                ensure(self.finished.insert((who, dead.arrival)), "a message ended twice")?;
                self.dead.entry((dead.from, who)).or_default().push(dead.outcome.n);
            }
            Event::OutcomeNoted { from, outcomes, .. } => {
                let noted = self.noted.entry((who, *from)).or_default();
                noted.extend(outcomes.iter().map(|outcome| outcome.n));
                let dead = self.dead.entry((who, *from)).or_default();
                ensure(dead.starts_with(noted), "an outcome was noted that is none")?;
            }
            Event::Created(_) | Event::Told { .. } | Event::Closed => {}
        }
        Ok(())
    }

    fn decide(
        &mut self,
        pair: Pair,
        n: u64,
        (id, reason): (MessageId, Option<Reason>),
    ) -> Result<(), Violation> {
        let queued = self.queued.get(&pair).and_then(|queued| queued.get(n as usize - 1));
        let decided = self.decided.entry(pair).or_default();
        if let Some((_, before)) = decided.get(n as usize - 1) {
            return Err(if before.is_none() && reason.is_none() { TWICE } else { BOTH });
        }
        ensure(n == decided.len() as u64 + 1, ORDER)?;
        ensure(queued == Some(&id), UNKNOWN)?;
        decided.push((id, reason));
        Ok(())
    }

    /// Numbers that are queued and not decided, over all senders to `target`.
    pub(crate) fn n_undecided(&self, target: SessionId) -> u64 {
        let to = self.queued.iter().filter(|((_, to), _)| *to == target);
        let n = to.map(|(pair, queued)| queued.len() - self.decided.get(pair).map_or(0, Vec::len));
        n.sum::<usize>() as u64
    }

    fn holds(&self, pair: Pair, n: u64, id: MessageId) -> bool {
        self.queued.get(&pair).and_then(|queued| queued.get(n as usize - 1)) == Some(&id)
    }

    /// An action of `who` is seen outside; `settled_with` is its durable settled mark by target.
    pub(crate) fn seen(
        &self,
        who: SessionId,
        action: &Action,
        settled_with: impl Fn(SessionId) -> u64,
    ) -> Result<(), Violation> {
        match action {
            Action::Receipts { receipts, .. } | Action::Ended { receipts, .. } => {
                let durable = |r: &Receipt| self.holds((who, r.target), r.n, r.id);
                ensure(receipts.iter().all(durable), "a receipt was given before its flush")
            }
            Action::Dispatch { target, first, messages, settled } => {
                let mut numbered = (*first..).zip(messages);
                let durable = numbered.all(|(n, m)| self.holds((who, *target), n, m.id));
                ensure(durable, EARLY_DISPATCH)?;
                ensure(*settled <= settled_with(*target), EARLY_MARK)
            }
            Action::Answer { to, answer } => {
                let none = Vec::new();
                let decided = self.decided.get(&(*to, who)).unwrap_or(&none);
                ensure(answer.upto <= decided.len() as u64, EARLY_ANSWER)?;
                let durable = |n: u64| decided.get(n as usize - 1).is_some_and(|d| d.1.is_some());
                ensure(answer.refused.iter().all(|refusal| durable(refusal.n)), EARLY_ANSWER)
            }
            Action::Report { to, outcomes } => {
                let n_dead = self.dead.get(&(*to, who)).map_or(0, Vec::len) as u64;
                let durable = outcomes.iter().all(|outcome| outcome.number <= n_dead);
                ensure(durable, "an outcome was told before its flush")
            }
            Action::ReportAnswer { to, upto } => {
                let n_noted = self.noted.get(&(who, *to)).map_or(0, Vec::len) as u64;
                ensure(*upto <= n_noted, "an outcome was answered before its flush")
            }
            Action::Begin { items, .. } | Action::Steered { items } => {
                let tried = |arrival| self.tried.contains_key(&(who, arrival));
                let durable = items.iter().all(|item| tried(item.arrival));
                ensure(durable, "an agent saw mail before its attempt was on disk")
            }
            Action::Release { .. } | Action::Closed { .. } | Action::Inspected { .. } => Ok(()),
        }
    }
}
