//! What waits for the committer.
//!
//! **Invariant**: what one caller hands over is taken in that order; all of it is taken at once,
//! under one lock. The lock is never held while something is written or somebody is called.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::keeper::Done;
use super::load::LoadCell;
use super::segment::lock;
use crate::persist::store::{Append, Permit, Urgency};

/// An append on its way.
pub(crate) struct Waiting {
    pub(crate) cell: Arc<LoadCell>,
    pub(crate) append: Append,
    pub(crate) permit: Permit,
    /// The payload that comes next; more than one group may be needed for a snapshot.
    pub(crate) next: usize,
    /// What a snapshot is the state after, known once its first part is placed.
    pub(crate) as_of: u64,
}

/// One thing handed to the committer.
pub(crate) enum Item {
    /// Frames.
    Append(Waiting),
    /// The load ends after everything before.
    End(Arc<LoadCell>, Box<dyn FnOnce() + Send>),
}

/// How the committer is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Commit what was handed over, flush, save the heads.
    Orderly,
    /// At once: nothing more is written.
    Now,
}

#[derive(Default)]
struct Inner {
    items: VecDeque<Item>,
    /// Something must be committed now.
    urgent: bool,
    /// When the oldest lazy append came, in ms of [`Clock`].
    lazy_since: Option<u64>,
    /// A look around is wanted: room was given back, space is wanted.
    poked: bool,
    done: Vec<Done>,
    stop: Option<Stop>,
    /// Nothing is taken in any more.
    closed: bool,
    asleep: bool,
}

/// What was taken.
#[derive(Default)]
pub(crate) struct Taken {
    pub(crate) done: Vec<Done>,
    pub(crate) poked: bool,
    pub(crate) stop: Option<Stop>,
}

/// The queue.
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    more: Condvar,
    clock: Clock,
    lazy_ms: u64,
}

impl Queue {
    pub(crate) fn new(clock: Clock, lazy_commit: Duration) -> Self {
        let lazy_ms = u64::try_from(lazy_commit.as_millis()).unwrap_or(u64::MAX);
        Queue { inner: Mutex::default(), more: Condvar::new(), clock, lazy_ms }
    }

    /// The clock that lazy appends are held against.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Hands an item over; whether it must be committed now. A closed queue gives it back.
    pub(crate) fn push(&self, item: Item) -> Result<bool, Box<Item>> {
        let lazy = match &item {
            Item::Append(waiting) => waiting.append.urgency == Urgency::Lazy,
            Item::End(..) => false,
        };
        let now = if lazy { self.clock.now_ms() } else { 0 };
        let mut refused = None;
        self.change(|inner| {
            if inner.closed {
                refused = Some(item);
                return false;
            }
            inner.items.push_back(item);
            if lazy {
                inner.lazy_since.get_or_insert(now);
            } else {
                inner.urgent = true;
            }
            // A first lazy append sets a deadline, which the sleeper must see.
            !lazy || inner.lazy_since == Some(now)
        });
        refused.map_or(Ok(!lazy), |item| Err(Box::new(item)))
    }

    /// Nothing is taken in any more.
    pub(crate) fn close(&self) {
        lock(&self.inner).closed = true;
    }

    /// Whatever waits is to be committed now. Whether anything waits.
    pub(crate) fn urge(&self) -> bool {
        let mut any = false;
        self.change(|inner| {
            any = !inner.items.is_empty();
            inner.urgent |= any;
            any
        });
        any
    }

    /// Asks the committer to look around.
    pub(crate) fn poke(&self) {
        self.change(|inner| !std::mem::replace(&mut inner.poked, true));
    }

    /// A chore is done.
    pub(crate) fn done(&self, done: Done) {
        self.change(|inner| {
            inner.done.push(done);
            true
        });
    }

    /// Asks the committer to stop.
    pub(crate) fn stop(&self, stop: Stop) {
        self.change(|inner| {
            inner.stop = Some(stop);
            true
        });
    }

    fn change(&self, change: impl FnOnce(&mut Inner) -> bool) {
        let mut inner = lock(&self.inner);
        let wake = change(&mut inner) && inner.asleep;
        drop(inner);
        if wake {
            self.more.notify_all();
        }
    }

    /// Whether [`Queue::take`] would give the committer something to do.
    pub(crate) fn has_work(&self) -> bool {
        lock(&self.inner).has_work(self.clock.now_ms(), self.lazy_ms)
    }

    /// As [`Queue::has_work`], but for a wish to stop.
    pub(crate) fn has_more(&self) -> bool {
        let inner = lock(&self.inner);
        inner.is_due(self.clock.now_ms(), self.lazy_ms)
    }

    /// Takes what there is to do, without waiting. Lazy appends stay unless something is urgent,
    /// their time has come, or the committer is to stop.
    pub(crate) fn take(&self, into: &mut VecDeque<Item>) -> Taken {
        let now = self.clock.now_ms();
        lock(&self.inner).take(into, now, self.lazy_ms)
    }

    /// Waits until there is something to do or the clock shows `until`. Threads only.
    pub(crate) fn sleep(&self, until: Option<u64>) {
        let mut inner = lock(&self.inner);
        loop {
            let now = self.clock.now_ms();
            if inner.has_work(now, self.lazy_ms) || until.is_some_and(|until| now >= until) {
                break;
            }
            let lazy = inner.lazy_since.map(|since| since.saturating_add(self.lazy_ms));
            let until = [until, lazy].into_iter().flatten().min();
            inner.asleep = true;
            inner = match until {
                None => self.more.wait(inner).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let wait = Duration::from_millis(until.saturating_sub(now).max(1));
                    let woken = self.more.wait_timeout(inner, wait);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            inner.asleep = false;
        }
    }
}

impl Inner {
    fn lazy_is_due(&self, now: u64, lazy_ms: u64) -> bool {
        self.lazy_since.is_some_and(|since| now >= since.saturating_add(lazy_ms))
    }

    fn is_due(&self, now: u64, lazy_ms: u64) -> bool {
        let to_commit = self.urgent || self.lazy_is_due(now, lazy_ms);
        to_commit || self.poked || !self.done.is_empty()
    }

    fn has_work(&self, now: u64, lazy_ms: u64) -> bool {
        self.stop.is_some() || self.is_due(now, lazy_ms)
    }

    fn take(&mut self, into: &mut VecDeque<Item>, now: u64, lazy_ms: u64) -> Taken {
        if self.urgent || self.stop.is_some() || self.lazy_is_due(now, lazy_ms) {
            self.urgent = false;
            self.lazy_since = None;
            if into.is_empty() {
                std::mem::swap(into, &mut self.items);
            } else {
                into.append(&mut self.items);
            }
        }
        Taken {
            done: std::mem::take(&mut self.done),
            poked: std::mem::take(&mut self.poked),
            stop: self.stop,
        }
    }
}

/// Milliseconds: this machine's, or told.
#[derive(Debug)]
pub(crate) enum Clock {
    /// Since the store was opened.
    Machine(Instant),
    /// What the last tick said.
    Told(std::sync::atomic::AtomicU64),
}

impl Clock {
    /// The time.
    pub(crate) fn now_ms(&self) -> u64 {
        match self {
            Clock::Machine(start) => u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
            Clock::Told(now) => now.load(std::sync::atomic::Ordering::Relaxed),
        }
    }

    /// Says what time it is, where it is told.
    pub(crate) fn tell(&self, now_ms: u64) {
        if let Clock::Told(now) = self {
            now.fetch_max(now_ms, std::sync::atomic::Ordering::Relaxed);
        }
    }
}
