//! What of a load is on disk.
//!
//! **Invariant**: word of another load is not heard.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::Fault;

/// The flushed ticket of the present load, and its end.
#[derive(Default)]
pub(super) struct Proof {
    load: AtomicU64,
    flushed: AtomicU64,
    failed: AtomicBool,
    fault: Mutex<Option<Fault>>,
    ended: AtomicBool,
}

impl Proof {
    /// A load begins.
    pub(super) fn begin(&self, load: u64) {
        self.flushed.store(0, Ordering::Release);
        self.failed.store(false, Ordering::Release);
        self.ended.store(false, Ordering::Release);
        self.load.store(load, Ordering::Release);
    }

    /// The committer's word. Returns whether it was about the present load.
    pub(super) fn settled(&self, load: u64, ticket: u64, outcome: Result<(), Fault>) -> bool {
        if self.load.load(Ordering::Acquire) != load {
            return false;
        }
        match outcome {
            Ok(()) => {
                self.flushed.fetch_max(ticket, Ordering::AcqRel);
            }
            Err(fault) => {
                *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
                self.failed.store(true, Ordering::Release);
            }
        }
        true
    }

    /// The highest ticket on disk.
    pub(super) fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    /// Why tickets of this load have failed, if so.
    pub(super) fn fault(&self) -> Option<Fault> {
        if !self.failed.load(Ordering::Acquire) {
            return None;
        }
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The committer has ended the load.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Whether the committer has ended the load; asked once.
    pub(super) fn take_ended(&self) -> bool {
        self.ended.swap(false, Ordering::AcqRel)
    }
}
