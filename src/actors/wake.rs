//! Which sessions of an arbiter have something to look at.
//!
//! **Invariant**: a pushed cell is looked at once; the arbiter is notified only when its queue was
//! empty. What an arbiter's own thread pushes during one drain goes over in batches at its end.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::cell::Cell;

/// The queue of one arbiter.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Vec<Arc<Cell>>>,
    notify: Notify,
    /// Drains of the arbiter's sessions so far: each is one budget of one session.
    rounds: AtomicU64,
    rounds_waited_max: AtomicU64,
}

thread_local! {
    static BATCH: RefCell<Option<Batches>> = const { RefCell::new(None) };
}

type Batches = Vec<(Arc<Queue>, Vec<Arc<Cell>>)>;

impl Queue {
    pub(super) fn push(self: &Arc<Self>, cell: Arc<Cell>) {
        let left = BATCH.with_borrow_mut(|batch| match batch {
            Some(batches) => {
                match batches.iter_mut().find(|(queue, _)| Arc::ptr_eq(queue, self)) {
                    Some((_, cells)) => cells.push(cell),
                    None => batches.push((Arc::clone(self), vec![cell])),
                }
                None
            }
            None => Some(cell),
        });
        if let Some(cell) = left {
            self.extend(std::iter::once(cell));
        }
    }

    fn extend(&self, cells: impl Iterator<Item = Arc<Cell>>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = waiting.is_empty();
        waiting.extend(cells);
        let notify = was_empty && !waiting.is_empty();
        drop(waiting);
        if notify {
            self.notify.notify_one();
        }
    }

    /// Swaps the waiting cells into `cells`, which is empty.
    pub(super) fn take(&self, cells: &mut Vec<Arc<Cell>>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *waiting, cells);
    }

    /// Drains of the arbiter's sessions so far.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// A session that was woken after `woken_at` rounds, or by nobody else, is drained now.
    pub(super) fn begin_round(&self, woken_at: Option<u64>) {
        let before = self.rounds.fetch_add(1, Ordering::Relaxed);
        let waited = woken_at.map_or(0, |woken_at| before.saturating_sub(woken_at));
        if waited > self.rounds_waited_max.load(Ordering::Relaxed) {
            self.rounds_waited_max.fetch_max(waited, Ordering::Relaxed);
        }
    }

    /// The most rounds that a session has waited from its wake to its drain.
    pub(super) fn rounds_waited_max(&self) -> u64 {
        self.rounds_waited_max.load(Ordering::Relaxed)
    }

    /// Has the arbiter look at its queue and its timers.
    pub(super) fn poke(&self) {
        self.notify.notify_one();
    }

    pub(super) async fn poked(&self) {
        self.notify.notified().await;
    }
}

/// While it lives, pushes of this thread are gathered; then they go over, one lock a queue.
pub(super) struct Batch {
    outer: bool,
}

impl Batch {
    pub(super) fn begin() -> Self {
        let outer = BATCH.with_borrow_mut(|batch| {
            let outer = batch.is_none();
            if outer {
                *batch = Some(SPARE.take());
            }
            outer
        });
        Batch { outer }
    }
}

thread_local! {
    /// The queues of the last batch, with their emptied lists.
    static SPARE: std::cell::Cell<Batches> = const { std::cell::Cell::new(Vec::new()) };
}

impl Drop for Batch {
    fn drop(&mut self) {
        if !self.outer {
            return;
        }
        let Some(mut batches) = BATCH.take() else { return };
        for (queue, cells) in &mut batches {
            if !cells.is_empty() {
                queue.extend(cells.drain(..));
            }
        }
        SPARE.set(batches);
    }
}
