//! What one commit carries, and whom it is settled with.
//!
//! **Invariant**: a load is told once per group, of its newest ticket in it.

use std::sync::Arc;

use super::calls::Calls;
use super::heads::{Link, Slot};
use super::load::LoadCell;
use crate::error::Fault;
use crate::persist::store::Permit;

/// What is settled when a group is on disk, or is not.
#[derive(Default)]
pub(crate) struct Batch {
    /// The frames, in log order.
    pub(crate) links: Vec<(Slot, Link)>,
    /// Loads and their newest ticket; the oldest too, for a failure.
    settlements: Vec<Settlement>,
    /// Appends that are refused.
    refused: Vec<(Arc<LoadCell>, u64, Fault)>,
    /// Loads that end with this group.
    ends: Vec<End>,
    /// Room to be given back.
    pub(crate) permits: Vec<Permit>,
}

/// Called when a load has ended.
pub(crate) type Ended = Box<dyn FnOnce() + Send>;

struct End {
    cell: Arc<LoadCell>,
    call: Ended,
}

struct Settlement {
    cell: Arc<LoadCell>,
    oldest: u64,
    newest: u64,
}

impl Batch {
    /// Whether there is nothing to write and nobody to tell.
    pub(crate) fn is_empty(&self) -> bool {
        self.links.is_empty()
            && self.settlements.is_empty()
            && self.refused.is_empty()
            && self.ends.is_empty()
    }

    /// An append whose last frame is in the group `number`.
    pub(crate) fn settle(&mut self, cell: &Arc<LoadCell>, ticket: u64, number: u64) {
        let known = cell.place_in(number).and_then(|place| self.settlements.get_mut(place));
        if let Some(settlement) = known {
            settlement.newest = ticket;
            return;
        }
        cell.set_place(number, self.settlements.len());
        self.settlements.push(Settlement { cell: cell.clone(), oldest: ticket, newest: ticket });
    }

    /// An append that is not written.
    pub(crate) fn refuse(&mut self, cell: &Arc<LoadCell>, ticket: u64, fault: Fault) {
        cell.fail();
        self.refused.push((cell.clone(), ticket, fault));
    }

    /// A load ends after what is in the batch.
    pub(crate) fn end(&mut self, cell: Arc<LoadCell>, call: Ended) {
        self.ends.push(End { cell, call });
    }

    /// The group is not on disk: its appends are refused.
    pub(crate) fn fail(&mut self, fault: &Fault) {
        self.links.clear();
        for settlement in self.settlements.drain(..) {
            settlement.cell.fail();
            self.refused.insert(0, (settlement.cell, settlement.oldest, fault.clone()));
        }
    }

    /// Tells everybody, in order; `ended` is called for each load before its own call.
    /// A callee's panic goes on when all were told.
    pub(crate) fn tell(&mut self, mut ended: impl FnMut(&LoadCell)) {
        // Room first: whoever is told may ask for more at once.
        self.permits.clear();
        let mut calls = Calls::default();
        for Settlement { cell, newest, .. } in self.settlements.drain(..) {
            calls.make(|| cell.tickets.settled(cell.load.number, newest, Ok(())));
        }
        for (cell, ticket, fault) in self.refused.drain(..) {
            calls.make(|| cell.tickets.settled(cell.load.number, ticket, Err(fault)));
        }
        self.links.clear();
        for End { cell, call } in self.ends.drain(..) {
            ended(&cell);
            calls.make(call);
        }
        calls.finish();
    }
}
