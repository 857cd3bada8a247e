//! How much mail may be pending for one target: the counter, and who waits for room.
//!
//! **Invariant**: room that is given back goes to the one who has waited longest, who then holds
//! it; a grant that is not used is given back. So no wake-up is lost and nobody polls.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::cell::Cell;
use super::control::Control;
use crate::error::{Code, Refused};
use crate::protocol::session::Addressed;

/// The pending mail of one target: queued for it, or accepted by it and not yet taken.
pub(super) struct Room {
    limit: u64,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    count: u64,
    /// Sessions that wait for room for one message each.
    waiting: VecDeque<Arc<Cell>>,
}

impl Room {
    pub(super) fn new(limit: u64) -> Self {
        Room { limit, held: Mutex::default() }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes room for one message.
    pub(super) fn reserve(&self) -> Result<(), Refused> {
        let mut held = self.held();
        if held.count < self.limit {
            held.count += 1;
            return Ok(());
        }
        let text = "the target has as much pending mail as its limit allows";
        Err(Refused::over(Code::MailboxFull, text, self.limit, held.count + 1))
    }

    /// The refusal of one who would have to wait behind others for room.
    pub(super) fn is_waited_for(&self) -> Refused {
        let text = "an earlier send to the target waits for room";
        let held = self.held();
        let ahead = held.count + held.waiting.len() as u64;
        Refused::over(Code::MailboxFull, text, self.limit, ahead + 1)
    }

    /// Takes room for one message, or queues for it: then [`Control::Granted`] comes later.
    pub(super) fn reserve_or_wait(&self, waiting: &Arc<Cell>) -> bool {
        let mut held = self.held();
        if held.count < self.limit {
            held.count += 1;
            return true;
        }
        held.waiting.push_back(Arc::clone(waiting));
        false
    }

    /// Adds what is pending already, without asking the limit.
    pub(super) fn add(&self, count: u64) {
        self.held().count += count;
    }

    /// Gives room back; returns who has it now.
    fn release(&self, count: u64) -> Vec<Arc<Cell>> {
        let mut held = self.held();
        debug_assert!(held.count >= count, "more room is given back than was taken");
        held.count = held.count.saturating_sub(count);
        let free = usize::try_from(self.limit.saturating_sub(held.count)).unwrap_or(usize::MAX);
        let n_granted = free.min(held.waiting.len());
        held.count += n_granted as u64;
        held.waiting.drain(..n_granted).collect()
    }

    pub(super) fn count(&self) -> u64 {
        self.held().count
    }

    /// Whether nothing is pending and nobody waits.
    pub(super) fn is_unused(&self) -> bool {
        let held = self.held();
        held.count == 0 && held.waiting.is_empty()
    }

    /// Nobody waits any more; returns who has.
    pub(super) fn give_up_waiting(&self) -> VecDeque<Arc<Cell>> {
        std::mem::take(&mut self.held().waiting)
    }
}

impl Cell {
    /// Gives back room for `count` messages to this target.
    pub fn release(&self, count: u64) {
        for waiting in self.room.release(count) {
            waiting.push(Control::Granted { target: self.id() });
        }
    }
}

/// A message with its room, to be queued with the end of a turn. Dropping it gives the room back.
#[derive(Debug)]
pub struct Staged {
    pub(super) addressed: Addressed,
    pub(super) reservation: Reservation,
}

/// Room for one message at a target. Dropping it gives the room back.
#[derive(Debug)]
pub(super) struct Reservation(Option<Arc<Cell>>);

impl Reservation {
    /// Takes room.
    pub(super) fn take(cell: &Arc<Cell>) -> Result<Self, Refused> {
        cell.room.reserve()?;
        Ok(Reservation::of(cell))
    }

    /// For room that was taken already.
    pub(super) fn of(cell: &Arc<Cell>) -> Self {
        Reservation(Some(Arc::clone(cell)))
    }

    /// The message is queued: from here on the machine answers for the room.
    pub(super) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(cell) = self.0.take() {
            cell.release(1);
        }
    }
}
