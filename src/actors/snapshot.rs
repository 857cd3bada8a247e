//! When a session writes a snapshot, and how.
//!
//! **Invariant**: a snapshot is the state after everything appended before it, and counts once its
//! last part is flushed; a chain stays bounded in frames and in bytes.

use std::sync::Arc;

use super::resident::Resident;
use crate::persist::store::{Append, NoPermit, Payload, Purpose, Urgency};

/// A chain is not called long below 4 times this, in bytes.
const SNAPSHOT_BYTES_LEAST: usize = 16 * 1024;

/// What was appended since the last snapshot.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Chain {
    n_frames: u64,
    bytes: usize,
    snapshot_bytes: usize,
    /// A snapshot of so many bytes had no room.
    refused_bytes: Option<usize>,
}

impl Chain {
    /// A chain that begins at a snapshot of so many bytes.
    pub(super) fn after(snapshot_bytes: usize) -> Self {
        Chain { snapshot_bytes, ..Chain::default() }
    }

    pub(super) fn grow(&mut self, bytes: usize) {
        self.n_frames += 1;
        self.bytes += bytes;
    }

    fn is_long(&self, snapshot_every: u64) -> bool {
        self.n_frames >= snapshot_every
            || self.bytes > 4 * self.snapshot_bytes.max(SNAPSHOT_BYTES_LEAST)
    }
}

impl Resident {
    /// Writes a snapshot where the chain is long or one is wanted. Without room for it, it is tried
    /// again after the next frame.
    pub(super) fn snapshot_if_due(&mut self) {
        let config = &self.local.shared.config.store;
        if !self.snapshot_wanted && !self.chain.is_long(config.snapshot_every) {
            return;
        }
        let part_max = config.frame_max;
        let store = Arc::clone(&self.local.shared.store);
        let purpose = if self.snapshot_wanted { Purpose::Clean } else { Purpose::Snapshot };
        // Where there was no room for it, it is not written out again before there may be.
        let asked = self.chain.refused_bytes;
        let asked = asked.map(|bytes| store.permit(self.load, bytes, purpose));
        if let Some(Err(NoPermit::Wait)) = asked {
            return;
        }
        drop(asked);
        let payload = match self.machine.snapshot_payload() {
            Ok(payload) => payload,
            Err(error) => return tracing::error!(session = %self.cell.id(), %error, "no snapshot"),
        };
        let bytes = payload.len();
        let permit = match store.permit(self.load, bytes, purpose) {
            Ok(permit) => permit,
            Err(NoPermit::Wait) => {
                self.chain.refused_bytes = Some(bytes);
                return;
            }
            Err(NoPermit::Fault(fault)) => {
                return tracing::debug!(session = %self.cell.id(), %fault, "no snapshot");
            }
        };
        let append = Append {
            ticket: self.machine.number_snapshot(),
            payload: Payload::snapshot(payload, part_max),
            pending: self.machine.state().has_pending(),
            urgency: Urgency::Lazy,
            time: self.local.shared.clock.now(),
        };
        self.chain = Chain::after(bytes);
        self.snapshot_wanted = false;
        store.append(permit, append);
    }
}
