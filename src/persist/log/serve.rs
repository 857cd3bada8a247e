//! How the committer spends its time: as a thread, or in its callers' calls.
//!
//! **Invariant**: no timer forms a group; what waits while a flush runs is the next one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use super::committer::Committer;
use super::keeper::Keeper;
use super::queue::{Stop, Taken};
use crate::error::Fault;

/// The part of a flush's time that may be spent on letting those settled last come back.
const COME_BACK: u32 = 4;
/// The part of that without an arrival after which nobody else is expected.
const QUIET: u32 = 4;

/// How the last group went.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Appends it settled.
    pub(crate) n_settled: usize,
    /// How long its flush took.
    pub(crate) flush_time: Duration,
}

impl Committer {
    /// Those just settled come back within microseconds; a group taken before they do would leave
    /// them to the flush after next, and every flush would carry half. So they are let in, for a
    /// small part of the time a flush takes; a lone writer that is back is never kept waiting.
    fn let_the_settled_come_back(&self) {
        let within = self.pace.flush_time / COME_BACK;
        let start = Instant::now();
        let (mut seen, mut grew) = (self.core.room.n_taken(), Duration::ZERO);
        while seen < self.pace.n_settled {
            thread::yield_now();
            let now = start.elapsed();
            let taken = self.core.room.n_taken();
            if taken != seen {
                (seen, grew) = (taken, now);
            }
            if now >= within || now - grew >= within / QUIET {
                return;
            }
        }
    }

    /// The thread's whole life. A panic in it, a callee's or its own, is a fault of the store that
    /// everybody is told of.
    pub(crate) fn serve(mut self) -> Result<(), Fault> {
        let served = catch_unwind(AssertUnwindSafe(|| self.serve_until_stopped()));
        served.unwrap_or_else(|_| {
            let fault = self.give_up();
            tracing::error!(%fault, "the committer's thread panicked");
            self.end_keeper();
            Err(fault)
        })
    }

    fn serve_until_stopped(&mut self) -> Result<(), Fault> {
        loop {
            let stop = self.work();
            match stop {
                Some(Stop::Orderly) => return self.stop(),
                Some(Stop::Now) => {
                    self.core.queue.close();
                    self.end_keeper();
                    return Ok(());
                }
                None => self.core.queue.sleep(self.wake_at()),
            }
        }
    }

    /// Does everything there is to do; says whether it is to stop.
    pub(crate) fn work(&mut self) -> Option<Stop> {
        loop {
            if self.items.is_empty() && matches!(self.keeper, Keeper::Thread(..)) {
                self.let_the_settled_come_back();
            }
            let mut taken = self.core.queue.take(&mut self.items);
            self.notice(&mut taken);
            let stop = taken.stop;
            if stop == Some(Stop::Now) {
                return stop;
            }
            let busy = self.commit();
            self.take_care();
            if !busy && !self.core.queue.has_more() {
                self.pace.n_settled = 0;
                self.go_idle();
                return stop;
            }
        }
    }

    /// The orderly end, after a last round of work.
    pub(crate) fn stop(&mut self) -> Result<(), Fault> {
        self.core.queue.close();
        self.work();
        self.end_keeper();
        let mut taken: Taken = self.core.queue.take(&mut self.items);
        self.notice(&mut taken);
        while self.commit() {}
        self.finish()
    }

    fn end_keeper(&mut self) {
        std::mem::replace(&mut self.keeper, Keeper::Inline).end();
    }
}
