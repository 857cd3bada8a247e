//! How many sessions have something to do.
//!
//! **Invariant**: a session counts from the push that gives it something until its actor finds
//! nothing left, on disk, with nothing in its lanes; so zero means that nothing is pending
//! anywhere.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The count, and who waits for zero.
#[derive(Default)]
pub(super) struct Unquiet {
    count: AtomicUsize,
    n_waiting: AtomicUsize,
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

    /// Whether somebody waits: then a session does not wait for a commit to ride with.
    pub(super) fn is_awaited(&self) -> bool {
        self.n_waiting.load(Ordering::Acquire) > 0
    }

    /// From now on somebody waits.
    pub(super) fn wait(&self) -> Waits<'_> {
        self.n_waiting.fetch_add(1, Ordering::AcqRel);
        Waits(self)
    }
}

/// Somebody waits until no session has anything to do.
pub(super) struct Waits<'a>(&'a Unquiet);

impl Waits<'_> {
    /// Waits.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn quiet(self) {
        loop {
            let mut quiet = std::pin::pin!(self.0.quiet.notified());
            quiet.as_mut().enable();
            if self.0.count.load(Ordering::Acquire) == 0 {
                return;
            }
            quiet.await;
        }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.n_waiting.fetch_sub(1, Ordering::AcqRel);
    }
}
