//! How many sessions have something to do.
//!
//! **Invariant**: a session counts from the push that gives it something until its actor finds
//! nothing left, with nothing in its lanes; so zero means that nothing is pending anywhere.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The count, and who waits for zero.
#[derive(Default)]
pub(super) struct Unquiet {
    count: AtomicUsize,
    quiet: Notify,
}

impl Unquiet {
    pub(super) fn raise(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn lower(&self) {
        if self.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.quiet.notify_waiters();
        }
    }

    /// Waits until no session has anything to do.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn quiet(&self) {
        loop {
            let mut quiet = std::pin::pin!(self.quiet.notified());
            quiet.as_mut().enable();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            quiet.await;
        }
    }
}
