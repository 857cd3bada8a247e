//! What the supervisor does about a session whose load has fallen, or that has no agent.
//!
//! **Invariant**: each fall gets one word: load again, wait, or live without an agent; only a
//! session that panics too often, or that could not be made, has failed for good, and its mail is
//! made dead only after that is on disk.

use std::collections::{HashMap, VecDeque};

use super::control::Control;
use super::request::Fallen;
use super::shared::Shared;
use super::supervisor::{Decided, Supervisor};
use crate::protocol::session::backoff::backoff;
use crate::protocol::supervisor::Phase;
use crate::protocol::{SessionId, Timestamp};

impl Supervisor {
    /// A session's load ended by itself: it is loaded again. One that panics does so within a
    /// bound, else it has failed; a journal that fails is not the session's doing, so there it only
    /// waits longer each time. One whose agent cannot be made lives without it until its next load,
    /// unless it is only being made: then it has failed.
    pub(super) fn fallen(&mut self, id: SessionId, why: Fallen, decided: &mut Decided) {
        let phase = self.graph.sessions.get(&id).map(|record| record.phase);
        let reason = match why {
            Fallen::Fault(_) => return self.respawn_later(id),
            Fallen::Panicked if self.may_respawn(id) => {
                return self.shared.cell(id).push(Control::Respawn);
            }
            Fallen::Panicked => "its actor panicked too often".to_owned(),
            Fallen::Unmade { code, message } if phase == Some(Phase::Provisioning) => {
                format!("{code}: {message}")
            }
            Fallen::Unmade { code, message } => {
                tracing::error!(session = %id, %code, %message, "the session has no agent");
                return self.shared.strand(id);
            }
        };
        tracing::error!(session = %id, %reason, "the session has failed");
        self.shared.strand(id);
        if matches!(phase, Some(Phase::Provisioning | Phase::Active)) {
            let event = self.failed(id, &reason);
            self.record_small(event, decided);
        }
        decided.after.push(Box::new(move |supervisor, outcome| {
            let cell = supervisor.shared.cell(id);
            // Where that cannot be recorded, it has failed until the next opening, and keeps its
            // mail.
            let phase = supervisor.graph.sessions.get(&id).map(|record| record.phase);
            let for_good = outcome.is_ok() && phase == Some(Phase::Failed);
            if outcome.is_ok() {
                cell.revoke_ways();
            }
            cell.push(Control::Fail { for_good });
        }));
    }

    fn may_respawn(&mut self, id: SessionId) -> bool {
        self.panics.count(id, &self.shared) <= self.shared.config.life.respawn_max
    }

    fn respawn_later(&mut self, id: SessionId) {
        let (n_falls, cell) = (self.faults.count(id, &self.shared), self.shared.cell(id));
        if n_falls <= 1 {
            return cell.push(Control::Respawn);
        }
        cell.push(Control::Withhold);
        let wait = backoff(self.shared.config.limits.resend_after, n_falls - 2);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(wait).await;
            cell.push(Control::Respawn);
        });
    }
}

/// Recent falls by session, oldest first.
#[derive(Default)]
pub(super) struct Falls(HashMap<SessionId, VecDeque<Timestamp>>);

impl Falls {
    /// Falls of a session within the window, with this one.
    fn count(&mut self, id: SessionId, shared: &Shared) -> u32 {
        let (now, window) = (shared.clock.steady(), shared.config.life.respawn_window);
        let falls = self.0.entry(id).or_default();
        falls.push_back(now);
        falls.retain(|at| at.after(window) > now);
        u32::try_from(falls.len()).unwrap_or(u32::MAX)
    }
}
