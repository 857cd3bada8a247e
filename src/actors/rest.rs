//! What a session does when there is nothing to do: counts as quiet, waits for its timer, unloads.
//!
//! **Invariant**: a session is unloaded only with nothing pending, nothing unflushed and nobody who
//! waits for it.

use std::time::Duration;

use super::body::Body;
use super::ending::Why;
use super::resident::{After, Resident};
use crate::protocol::Timestamp;
use crate::protocol::session::Input;

impl Resident {
    /// Feeds the machine the time, where it is due.
    pub(super) fn tick(&mut self) {
        let Some(timer) = self.timer else { return };
        let now = self.local.shared.clock.steady();
        if timer > now {
            return;
        }
        self.timer = None;
        if self.machine_wake.is_some_and(|at| at <= now) {
            self.machine_wake = None;
            self.batch.push_back(Input::Tick);
        }
    }

    /// Whether the bus closes and the session's time for it is over. A turn that is still open then
    /// is given back: nothing has failed, and it has the same time once more to get that on disk.
    pub(super) fn is_overdue(&mut self) -> bool {
        let now = self.local.shared.clock.steady();
        if self.stop_at.is_none_or(|at| at > now) {
            return false;
        }
        let open = self.machine.state().turn.is_some() && !matches!(self.body, Body::Absent);
        if !open || self.local.shared.store.fault().is_some() {
            return true;
        }
        self.let_body_go();
        self.batch.push_back(Input::GiveBack);
        self.stop_at = Some(now.after(self.local.shared.config.life.stop_max));
        false
    }

    /// Nothing is left to do now.
    pub(super) fn come_to_rest(&mut self) -> After {
        if self.stop_at.is_some() {
            return self.stop_or_wait();
        }
        if self.is_idle() {
            let (appended, flushed) = self.machine.tickets();
            if appended == flushed {
                self.cell.settle_down();
                self.slim();
            } else if self.local.shared.unquiet.is_awaited() {
                self.local.shared.store.urge();
            }
            if self.is_to_be_unloaded() {
                return After::End(Why::Unload);
            }
        } else {
            self.idle_since = None;
        }
        self.arm();
        After::Wait
    }

    fn stop_or_wait(&mut self) -> After {
        let (appended, flushed) = self.machine.tickets();
        // What a turn comes to cannot be kept where the journal has failed.
        if self.body.is_busy() && self.local.shared.store.fault().is_none() {
            self.arm();
            return After::Wait;
        }
        if appended > flushed {
            self.local.shared.store.urge();
            self.arm();
            return After::Wait;
        }
        After::End(Why::Stop)
    }

    /// A session that is done holds no room for what may come: most are done most of the time.
    fn slim(&mut self) {
        self.batch.shrink_to_fit();
        self.callers.shrink_to_fit();
        self.sights.slim();
        self.machine.slim();
    }

    fn is_idle(&self) -> bool {
        let state = self.machine.state();
        // Without its agent a session does nothing more with what it has accepted.
        let pending = match self.cell.is_failed() {
            true => state.owes_others(),
            false => state.has_pending(),
        };
        !pending && self.callers.is_empty() && !self.outgoing.borrow().is_waiting()
    }

    fn is_to_be_unloaded(&mut self) -> bool {
        if !self.machine.is_quiet() || self.body.is_attached() || self.cell.has_input() {
            self.idle_since = None;
            return false;
        }
        let now = self.local.shared.clock.steady();
        let since = *self.idle_since.get_or_insert(now);
        now >= since.after(self.patience())
    }

    /// How long an idle session stays.
    fn patience(&self) -> Duration {
        let life = &self.local.shared.config.life;
        let many = self.local.n_residents() > self.local.shared.residents_per_arbiter();
        if many { Duration::ZERO } else { life.idle_unload }
    }

    /// Has the arbiter wake this session when its time comes.
    pub(super) fn arm(&mut self) {
        let idle = self.idle_since.map(|since| since.after(self.patience()));
        let times = [self.machine_wake, self.stop_at, self.blocked_until, idle];
        let Some(next): Option<Timestamp> = times.into_iter().flatten().min() else { return };
        if self.timer.is_none_or(|timer| next < timer) {
            self.timer = Some(next);
            self.local.wake_at(next, &self.cell);
        }
    }
}
