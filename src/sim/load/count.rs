//! Counts in the journals what was lost and what was doubled.
//!
//! **Invariant**: only what the journals hold counts. Where all their events are still there, each
//! message is looked for by the number in its body, so that no mark of the bus is believed; where
//! the log was cleaned away, or is in memory, the sessions' own totals are compared.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::order::Order;
use crate::bus::Bus;
use crate::error::{Error, Fault};
use crate::persist::RealDisk;
use crate::persist::log::LogReader;
use crate::persist::store::{FrameKind, StoredFrame};
use crate::protocol::SessionId;
use crate::protocol::session::state::Counts;
use crate::sim::crowd;

/// What the sessions' journals add up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Totals {
    pub(super) queued: u64,
    pub(super) accepted: u64,
    pub(super) handled: u64,
    pub(super) refused: u64,
    pub(super) dead: u64,
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count {
    /// Messages with a receipt, and no acceptance in any journal.
    pub(super) lost: u64,
    /// Acceptances of a message after its first.
    pub(super) duplicates: u64,
    /// What it was counted from.
    pub(super) from: CountedFrom,
    /// Bytes of log that were written, where there is one.
    pub(super) log_bytes: Option<u64>,
}

/// What losses and duplicates were counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CountedFrom {
    /// Every event in the log.
    Events,
    /// The totals of the sessions.
    Sessions,
}

/// Adds up the totals of all sessions.
pub(super) async fn totals(bus: &Bus, ids: &[SessionId]) -> Result<Totals, Error> {
    let inspections = crowd::for_each(ids.to_vec(), |id| {
        let bus = bus.clone();
        async move { Ok(bus.inspect(id).await?.counts) }
    });
    let mut totals = Totals::default();
    for Counts { queued, accepted, handled, refused, dead, .. } in inspections.await? {
        totals.queued += queued;
        totals.accepted += accepted;
        totals.handled += handled;
        totals.refused += refused;
        totals.dead += dead;
    }
    Ok(totals)
}

/// Compares the totals of the sessions with each other and with the receipts.
pub(super) fn in_sessions(totals: &Totals, n_receipts: u64) -> Count {
    let Totals { queued, accepted, refused, .. } = *totals;
    let decided = accepted + refused;
    Count {
        lost: n_receipts.max(queued).saturating_sub(decided),
        duplicates: decided.saturating_sub(queued),
        from: CountedFrom::Sessions,
        log_bytes: None,
    }
}

/// Looks for every message in the log of `data`. `receipts` are each client's last number and the
/// numbers up to it that have no receipt.
pub(super) fn in_events(data: &Path, receipts: &[(u64, Vec<u64>)]) -> Result<Count, Fault> {
    let reader = LogReader::open(Arc::new(RealDisk::new(data)))?;
    let mut seen = Seen::new(receipts.len());
    reader.frames(&mut |frame| seen.look(&frame))?;
    let lost = receipts.iter().zip(&seen.accepted).map(|((last, failed), accepted)| {
        let missing = (1..=*last).filter(|number| !accepted.has(*number));
        missing.filter(|number| failed.binary_search(number).is_err()).count() as u64
    });
    Ok(Count {
        lost: lost.sum(),
        duplicates: seen.duplicates,
        from: CountedFrom::Events,
        log_bytes: Some(seen.end),
    })
}

/// The acceptances seen so far.
struct Seen {
    accepted: Vec<Numbers>,
    duplicates: u64,
    /// Where the last frame lies.
    end: u64,
}

impl Seen {
    fn new(clients: usize) -> Self {
        Seen { accepted: vec![Numbers::default(); clients], duplicates: 0, end: 0 }
    }

    fn look(&mut self, frame: &StoredFrame) {
        self.end = self.end.max(frame.position + frame.payload.len() as u64);
        if frame.kind != FrameKind::Events || frame.session == SessionId::SUPERVISOR {
            return;
        }
        // A body that is not one of the load's may have a form that is not looked for.
        let Ok(events) = serde_json::from_slice::<Vec<Acceptance<'_>>>(&frame.payload) else {
            return;
        };
        for event in events {
            let Some(order) = event.order() else { continue };
            let Ok(client) = usize::try_from(order.client) else { continue };
            if let Some(accepted) = self.accepted.get_mut(client)
                && !accepted.insert(order.number)
            {
                self.duplicates += 1;
            }
        }
    }
}

/// An event, as far as it accepts a message.
struct Acceptance<'a>(Option<Accepted<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Acceptance<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Event;
        impl<'de> Visitor<'de> for Event {
            type Value = Acceptance<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event")
            }
            fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
                Ok(Acceptance(None))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut accepted = None;
                while let Some(kind) = map.next_key::<&str>()? {
                    match kind {
                        "accepted" => accepted = Some(map.next_value()?),
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(Acceptance(accepted))
            }
        }
        deserializer.deserialize_any(Event)
    }
}

#[derive(Deserialize)]
struct Accepted<'a> {
    #[serde(borrow)]
    message: Letter<'a>,
}

#[derive(Deserialize)]
struct Letter<'a> {
    #[serde(borrow)]
    body: Content<'a>,
}

#[derive(Deserialize)]
struct Content<'a> {
    text: &'a str,
}

impl Acceptance<'_> {
    fn order(&self) -> Option<Order> {
        self.0.as_ref().and_then(|accepted| Order::read(accepted.message.body.text))
    }
}

/// A set of numbers, most of them in a row.
#[derive(Debug, Clone, Default)]
struct Numbers(Vec<u64>);

impl Numbers {
    /// Whether it was not there.
    fn insert(&mut self, number: u64) -> bool {
        let (at, bit) = place(number);
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        let Some(word) = self.0.get_mut(at) else { return true };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn has(&self, number: u64) -> bool {
        let (at, bit) = place(number);
        self.0.get(at).is_some_and(|word| word & bit != 0)
    }
}

fn place(number: u64) -> (usize, u64) {
    (usize::try_from(number / 64).unwrap_or(usize::MAX), 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use crate::protocol::Timestamp;

    use super::*;

    fn frame(events: &str) -> StoredFrame {
        StoredFrame {
            position: 4_096,
            run: 1,
            previous: None,
            session: SessionId::from_bytes([7; 16]),
            kind: FrameKind::Events,
            pending: false,
            time: Timestamp(7),
            proved: true,
            payload: events.as_bytes().to_vec(),
        }
    }

    fn accepted(body: &str) -> String {
        format!(r#"{{"accepted":{{"from":"x","n":1,"message":{{"body":{{"text":"{body}"}}}}}}}}"#)
    }

    #[test]
    fn an_acceptance_is_found_among_other_events_and_a_second_one_is_a_duplicate() {
        let mut seen = Seen::new(2);
        let (one, two) = (accepted("0 1 10 10 .."), accepted("1 1 10 10 .."));
        seen.look(&frame(&format!(r#"["closed",{one},{{"told":{{"upto":1}}}},{two}]"#)));
        assert_eq!(seen.duplicates, 0);
        assert!(seen.accepted[0].has(1) && seen.accepted[1].has(1) && !seen.accepted[0].has(2));
        seen.look(&frame(&format!("[{two}]")));
        assert_eq!(seen.duplicates, 1);
        seen.look(&frame(&format!("[{}]", accepted("a stranger"))));
        assert_eq!(seen.duplicates, 1);
    }

    #[test]
    fn totals_that_do_not_match_tell_what_is_lost_or_doubled() {
        let totals = |queued, accepted| Totals { queued, accepted, ..Totals::default() };
        let counted = |totals, receipts| {
            let count = in_sessions(&totals, receipts);
            (count.lost, count.duplicates)
        };
        assert_eq!(counted(totals(5, 5), 5), (0, 0));
        assert_eq!(counted(totals(5, 4), 5), (1, 0));
        assert_eq!(counted(totals(5, 6), 5), (0, 1));
        assert_eq!(counted(totals(4, 4), 5), (1, 0));
    }

    #[test]
    fn numbers_are_kept_apart() {
        let mut numbers = Numbers::default();
        assert!(numbers.insert(1) && numbers.insert(64) && !numbers.insert(64));
        assert!(numbers.has(1) && !numbers.has(2) && !numbers.has(10_000));
    }
}
