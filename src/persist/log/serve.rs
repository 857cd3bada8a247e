//! How the committer spends its time: as a thread, or in its callers' calls.
//!
//! **Invariant**: no timer forms a group; what waits while a flush runs is the next one.

use super::committer::Committer;
use super::keeper::Keeper;
use super::queue::{Stop, Taken};
use crate::error::Fault;

impl Committer {
    /// The thread's whole life.
    pub(crate) fn serve(mut self) -> Result<(), Fault> {
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
            let mut taken = self.core.queue.take(&mut self.items);
            self.notice(&mut taken);
            let stop = taken.stop;
            if stop == Some(Stop::Now) {
                return stop;
            }
            let busy = self.commit();
            self.take_care();
            if !busy && !self.core.queue.has_more() {
                self.go_idle();
                return stop;
            }
        }
    }

    /// The orderly end, after a last round of work.
    pub(crate) fn stop(mut self) -> Result<(), Fault> {
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
