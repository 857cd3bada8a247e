//! What the journals say, read back frame by frame through the bus: the oracle of its scenarios.
//!
//! **Invariant**: nothing in here believes a counter; every finding comes from events.

use std::collections::{BTreeMap, BTreeSet};

use callboard::bus::{Bus, Page, Receipt};
use callboard::protocol::session::event::{DeadReason, Event, Outcome, Reason, TurnOutcome};
use callboard::protocol::{MessageId, SessionId};

/// Every event of every session, oldest first.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Ledger {
    sessions: BTreeMap<SessionId, Vec<Event>>,
}

/// What became of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Not decided by its target.
    Queued,
    /// Accepted, and neither handled nor dead.
    Accepted,
    Handled,
    Dead(DeadReason),
    Refused(Reason),
}

/// A sender and its target.
type Pair = (SessionId, SessionId);

impl Ledger {
    /// Reads every session's whole history, a few frames a page. A session whose journal is damaged
    /// has none.
    pub(crate) async fn read(bus: &Bus) -> Ledger {
        let records = bus.list().await.unwrap();
        Ledger::read_of(bus, records.into_iter().map(|record| record.created.id)).await
    }

    /// As [`Ledger::read`], of some sessions.
    pub(crate) async fn read_of(bus: &Bus, ids: impl IntoIterator<Item = SessionId>) -> Ledger {
        let ids: Vec<SessionId> = ids.into_iter().collect();
        let mut ledger = Ledger::read_once(bus, &ids).await;
        loop {
            // Read one after the other, journals that grow meanwhile contradict each other.
            let again = Ledger::read_once(bus, &ids).await;
            if again == ledger {
                return ledger;
            }
            ledger = again;
        }
    }

    async fn read_once(bus: &Bus, ids: &[SessionId]) -> Ledger {
        let mut sessions = BTreeMap::new();
        for id in ids {
            if let Some(events) = history(bus, *id).await {
                sessions.insert(*id, events);
            }
        }
        Ledger { sessions }
    }

    /// A session's events, oldest first.
    pub(crate) fn events(&self, id: SessionId) -> &[Event] {
        self.sessions.get(&id).map_or(&[], Vec::as_slice)
    }

    /// What each message of a pair came to, in the order of their numbers.
    pub(crate) fn fates(&self, from: SessionId, to: SessionId) -> Vec<Fate> {
        let n_queued = self.queued().get(&(from, to)).map_or(0, Vec::len);
        let mut fates = vec![Fate::Queued; n_queued];
        let mut arrivals = BTreeMap::new();
        for event in self.events(to) {
            match event {
                Event::Accepted { from: sender, n, arrival, .. } if *sender == from => {
                    fates[at(*n)] = Fate::Accepted;
                    arrivals.insert(*arrival, at(*n));
                }
                Event::Refused { from: sender, refusal, .. } if *sender == from => {
                    fates[at(refusal.n)] = Fate::Refused(refusal.reason);
                }
                Event::TurnEnded { handled, .. } => {
                    for place in handled.iter().filter_map(|arrival| arrivals.get(arrival)) {
                        fates[*place] = Fate::Handled;
                    }
                }
                Event::Dead(dead) if dead.from == from => {
                    fates[at(dead.outcome.n)] = Fate::Dead(dead.outcome.reason);
                }
                _ => {}
            }
        }
        fates
    }

    /// The texts of the messages that `to` has accepted from `from`, in order.
    pub(crate) fn texts(&self, from: SessionId, to: SessionId) -> Vec<String> {
        let texts = self.events(to).iter().filter_map(|event| match event {
            Event::Accepted { from: sender, message, .. } if *sender == from => {
                Some(message.body.as_str().to_owned())
            }
            _ => None,
        });
        texts.collect()
    }

    /// How many turns of a session have taken a message.
    pub(crate) fn attempts(&self, id: SessionId, message: MessageId) -> usize {
        let arrivals = self.events(id).iter().filter_map(|event| match event {
            Event::Accepted { arrival, message: it, .. } if it.id == message => Some(*arrival),
            _ => None,
        });
        let arrivals: Vec<u64> = arrivals.collect();
        let took = |event: &&Event| match event {
            Event::TurnStarted { taken, .. } | Event::Taken { taken, .. } => {
                taken.iter().any(|arrival| arrivals.contains(arrival))
            }
            _ => false,
        };
        self.events(id).iter().filter(took).count()
    }

    /// How the turns of a session ended: the code of a failure, or none.
    pub(crate) fn turns(&self, id: SessionId) -> Vec<Option<String>> {
        let ends = self.events(id).iter().filter_map(|event| match event {
            Event::TurnEnded { outcome, .. } => Some(match outcome {
                TurnOutcome::Completed => None,
                TurnOutcome::Failed(failure) => Some(failure.code.clone()),
                TurnOutcome::Interrupted => Some("interrupted".to_owned()),
                TurnOutcome::GivenBack => Some("given back".to_owned()),
            }),
            _ => None,
        });
        ends.collect()
    }

    /// Every promise that the journals can break: numbers without gap or double, each decided once
    /// by the target with the message the sender named, ends once and in order, the dead told.
    /// `when` is said in every panic.
    pub(crate) fn check(&self, when: &str) {
        let queued = self.queued();
        let decided = self.decided(when);
        for (pair, names) in &decided {
            let known = queued.get(pair).map(Vec::as_slice).unwrap_or_default();
            assert!(known.starts_with(names), "{when}: {pair:?} decided what was not queued");
        }
        for id in self.sessions.keys() {
            self.check_ends(*id, when);
            self.check_told(*id, when);
            self.check_settled(*id, when);
        }
    }

    /// As [`Ledger::check`], and nothing is left to do: every message has come to its end.
    pub(crate) fn check_done(&self, when: &str) {
        self.check(when);
        for (from, to) in self.queued().keys() {
            let open = self
                .fates(*from, *to)
                .iter()
                .position(|fate| matches!(fate, Fate::Queued | Fate::Accepted));
            assert_eq!(open, None, "{when}: a message from {from} to {to} has no end");
            let dead = self.dead_letters(*to, *from);
            let noted = self.noted(*from, *to);
            assert_eq!(dead, noted, "{when}: {from} was not told of its dead letters at {to}");
        }
    }

    /// Every receipt names a message in its sender's journal.
    pub(crate) fn check_receipts(&self, receipts: &[(SessionId, Receipt)], when: &str) {
        let queued = self.queued();
        for (from, receipt) in receipts {
            let names = queued.get(&(*from, receipt.target)).map(Vec::as_slice).unwrap_or_default();
            let name = names.get(at(receipt.n));
            assert_eq!(name, Some(&receipt.id), "{when}: {receipt:?} of {from} is gone");
        }
    }

    /// The names of the queued messages by pair, in the order of their numbers.
    pub(crate) fn queued(&self) -> BTreeMap<Pair, Vec<MessageId>> {
        let mut queued: BTreeMap<Pair, Vec<MessageId>> = BTreeMap::new();
        for (from, events) in &self.sessions {
            for event in events {
                if let Event::Queued { target, n, message } = event {
                    let names = queued.entry((*from, *target)).or_default();
                    names.push(message.id);
                    assert_eq!(*n, names.len() as u64, "{from} numbers {target} with a gap");
                }
            }
        }
        queued
    }

    fn decided(&self, when: &str) -> BTreeMap<Pair, Vec<MessageId>> {
        let mut decided: BTreeMap<Pair, Vec<MessageId>> = BTreeMap::new();
        for (to, events) in &self.sessions {
            for event in events {
                let (from, n, name) = match event {
                    Event::Accepted { from, n, message, .. } => (from, *n, message.id),
                    Event::Refused { from, refusal, id, .. } => (from, refusal.n, *id),
                    _ => continue,
                };
                let names = decided.entry((*from, *to)).or_default();
                names.push(name);
                assert_eq!(n, names.len() as u64, "{when}: {to} decided {from} out of order");
            }
        }
        decided
    }

    /// Each acceptance ends at most once, and per sender in order.
    fn check_ends(&self, id: SessionId, when: &str) {
        let mut open: BTreeMap<u64, (SessionId, u64)> = BTreeMap::new();
        let mut last: BTreeMap<SessionId, u64> = BTreeMap::new();
        let mut end = |arrival: &u64, open: &mut BTreeMap<u64, (SessionId, u64)>| {
            let ended = open.remove(arrival);
            let Some((from, n)) = ended else { panic!("{when}: {id} ended {arrival} twice") };
            let before = last.insert(from, n).unwrap_or(0);
            assert!(before < n, "{when}: {id} ended {n} of {from} after {before}");
        };
        for event in self.events(id) {
            match event {
                Event::Accepted { from, n, arrival, .. } => {
                    let double = open.insert(*arrival, (*from, *n));
                    assert_eq!(double, None, "{when}: {id} gave arrival {arrival} twice");
                }
                Event::TurnEnded { handled, .. } => {
                    handled.iter().for_each(|arrival| end(arrival, &mut open));
                }
                Event::Dead(dead) => end(&dead.arrival, &mut open),
                _ => {}
            }
        }
    }

    /// What a sender noted of its dead letters is what the other end told, once.
    fn check_told(&self, id: SessionId, when: &str) {
        let tellers: BTreeSet<SessionId> = self.sessions.keys().copied().collect();
        for teller in tellers {
            let (dead, noted) = (self.dead_letters(teller, id), self.noted(id, teller));
            assert!(dead.starts_with(&noted), "{when}: {id} noted what {teller} did not tell");
        }
    }

    /// What a sender holds for settled was decided, and its refusals are the target's.
    fn check_settled(&self, id: SessionId, when: &str) {
        let mut settled: BTreeMap<SessionId, u64> = BTreeMap::new();
        for event in self.events(id) {
            let Event::Delivered { target, upto, refused } = event else { continue };
            let from = settled.insert(*target, *upto).unwrap_or(0);
            if !self.sessions.contains_key(target) {
                continue;
            }
            let fates = self.fates(id, *target);
            for n in from + 1..=*upto {
                let told = refused.iter().find(|refusal| refusal.n == n).map(|it| it.reason);
                let decided = match fates[at(n)] {
                    Fate::Queued => panic!("{when}: {id} holds {n} to {target} for decided"),
                    Fate::Refused(reason) => Some(reason),
                    Fate::Accepted | Fate::Handled | Fate::Dead(_) => None,
                };
                assert_eq!(told, decided, "{when}: {id} was told wrong of {n} to {target}");
            }
        }
    }

    fn dead_letters(&self, at: SessionId, sender: SessionId) -> Vec<Outcome> {
        let dead = self.events(at).iter().filter_map(|event| match event {
            Event::Dead(dead) if dead.from == sender => Some(dead.outcome.clone()),
            _ => None,
        });
        dead.collect()
    }

    fn noted(&self, sender: SessionId, teller: SessionId) -> Vec<Outcome> {
        let noted = self.events(sender).iter().filter_map(|event| match event {
            Event::OutcomeNoted { from, outcomes, .. } if *from == teller => Some(outcomes.clone()),
            _ => None,
        });
        noted.flatten().collect()
    }
}

fn at(n: u64) -> usize {
    usize::try_from(n - 1).unwrap()
}

/// A session's events, oldest first; none where its journal is damaged.
pub(crate) async fn history(bus: &Bus, id: SessionId) -> Option<Vec<Event>> {
    let (mut frames, mut before) = (Vec::new(), None);
    loop {
        let page = bus.history(id, Page { before, limit: 17 }).await;
        let page = match page {
            Ok(page) => page,
            Err(error) if error.code() == callboard::Code::JournalCorrupt => return None,
            Err(error) => panic!("the history of {id}: {error}"),
        };
        frames.extend(page.entries.into_iter().map(|entry| entry.events));
        before = page.next;
        if before.is_none() {
            return Some(frames.into_iter().rev().flatten().collect());
        }
    }
}
