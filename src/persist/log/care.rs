//! What the committer sees to between commits: segments made ready, heads saved, segments freed,
//! the last group proved.
//!
//! **Invariant**: a segment is freed only when saved heads that need nothing of it are on disk and
//! a header on disk says that everything they cover is.

use std::io;

use super::cleaner;
use super::committer::{Committer, Start};
use super::group::BLOCK;
use super::heads_file::{ENTRY, SavedHeads};
use super::keeper::{Chore, Done, Keeper};
use super::meta::unusable;
use super::queue::Taken;
use super::segment::lock;
use crate::error::Fault;

const HEADS_EVERY_LEAST: u64 = 64 << 20;
const SPACE_RETRY_MS: u64 = 100;

/// What is under way.
#[derive(Debug)]
pub(crate) struct Care {
    preparing: bool,
    retry_at: u64,
    saving: bool,
    freeing: bool,
    saved_at: u64,
    /// What was carried when the cleaner looked last; it looks first at the first frame.
    cleaned_at: Option<u64>,
    /// Segments could be freed, as soon as saving the heads pays again.
    postponed: bool,
    asked: cleaner::Asked,
}

impl Care {
    pub(crate) fn new(start: &Start) -> Self {
        Care {
            preparing: false,
            retry_at: 0,
            saving: false,
            freeing: false,
            saved_at: start.covered,
            cleaned_at: None,
            postponed: false,
            asked: cleaner::Asked::default(),
        }
    }
}

impl Committer {
    /// Takes notice of what was done meanwhile.
    pub(crate) fn notice(&mut self, taken: &mut Taken) {
        for done in std::mem::take(&mut taken.done) {
            match done {
                Done::Prepared(result) => self.prepared(result),
                Done::Saved(position, free, result) => self.saved(position, free, result),
                Done::Freed(result) => self.freed(result),
            }
        }
        if taken.poked {
            if matches!(self.keeper, Keeper::Inline) {
                self.care.retry_at = 0;
            }
            self.core.room.tell();
        }
    }

    fn prepared(&mut self, result: io::Result<()>) {
        self.care.preparing = false;
        self.core.room.set_preparing(false);
        match result {
            Ok(()) => {
                self.core.room.set_short(None);
                self.look_around();
            }
            Err(error) => {
                let fault = unusable("make room for the log", &error);
                tracing::warn!(%error, "no segment could be made ready");
                self.care.retry_at =
                    self.core.queue.clock().now_ms().saturating_add(SPACE_RETRY_MS);
                self.core.room.set_short(Some(fault));
                self.core.room.forget_wanted(u64::MAX);
                self.core.room.tell();
            }
        }
    }

    /// Learns how much log there is, and tells those who wait for more.
    fn look_around(&mut self) {
        self.tail.look_around(&self.core.segments);
        self.publish();
        self.core.room.tell();
    }

    fn saved(&mut self, position: u64, free: Vec<u64>, result: io::Result<()>) {
        self.care.saving = false;
        if let Err(error) = result {
            tracing::warn!(%error, "the heads could not be saved");
            return;
        }
        if free.is_empty() || self.core.fault().is_some() {
            return;
        }
        let proof = if self.tail.proved < position { self.prove() } else { Ok(()) };
        match proof {
            Ok(()) if self.tail.proved >= position => {
                self.care.freeing = true;
                self.keeper.ask(&self.core, Chore::Free(free));
            }
            Ok(()) => {}
            Err(fault) => tracing::warn!(%fault, "the cleaner could not go on"),
        }
    }

    /// Puts a header on disk that says that everything before it is.
    fn prove(&mut self) -> Result<(), Fault> {
        self.flush()?;
        if self.tail.ahead() < BLOCK {
            return Ok(());
        }
        self.write_empty()?;
        self.flush()
    }

    fn freed(&mut self, result: io::Result<()>) {
        self.care.freeing = false;
        if let Err(error) = result {
            tracing::warn!(%error, "segments could not be freed");
        }
        self.care.retry_at = 0;
        self.look_around();
    }

    /// Makes sure that the segment of the next group is ready.
    ///
    /// # Errors
    /// `STORE_FULL`, `STORE_READ_ONLY`, or `STORE_UNUSABLE` when the disk fails otherwise.
    pub(crate) fn make_ready(&mut self) -> Result<(), Fault> {
        while self.tail.ahead() < BLOCK {
            if !self.care.preparing {
                self.ask_for_segment();
            }
            self.core.queue.sleep(None);
            let mut taken = self.core.queue.take(&mut self.items);
            self.notice(&mut taken);
            if self.tail.ahead() < BLOCK
                && let Some(short) = self.core.room.short()
            {
                return Err(short);
            }
        }
        Ok(())
    }

    fn ask_for_segment(&mut self) {
        self.care.preparing = true;
        self.core.room.set_preparing(true);
        let number = self.core.segments.of(self.tail.ready);
        self.keeper.ask(&self.core, Chore::Prepare(number));
    }

    /// Sees to what is due; called when nothing waits to be committed, and between groups.
    pub(crate) fn take_care(&mut self) {
        if self.core.fault().is_some() {
            return;
        }
        let now = self.core.queue.clock().now_ms();
        if self.flush_at.is_some_and(|at| now >= at)
            && let Err(fault) = self.flush()
        {
            tracing::error!(%fault, "the store is poisoned");
            return;
        }
        let short = self.core.room.short().is_some();
        let retry = short && now >= self.care.retry_at;
        if retry {
            self.care.retry_at = now.saturating_add(SPACE_RETRY_MS);
        }
        if !short || retry {
            self.see_to_space(retry);
        }
        self.save_when_due();
        self.clean_when_due(retry);
    }

    /// Has segments made ready. Where enough are, and the disk said no nevertheless, an empty
    /// group shows whether it still does.
    fn see_to_space(&mut self, retry: bool) {
        let ahead = self.tail.ahead();
        self.core.room.forget_wanted(ahead);
        let needed = ahead < self.core.room.enough();
        if needed && !self.care.preparing {
            self.ask_for_segment();
        }
        if needed || !retry {
            return;
        }
        if self.write_empty().and_then(|()| self.flush()).is_ok() {
            self.core.room.set_short(None);
            self.core.room.tell();
        }
    }

    /// When to wake up if nothing happens.
    pub(crate) fn wake_at(&self) -> Option<u64> {
        if self.core.fault().is_some() {
            return None;
        }
        let retry = self.core.room.short().map(|_| self.care.retry_at);
        [self.flush_at, retry].into_iter().flatten().min()
    }

    /// Log that is written between two saves of the heads at least, so that they stay a small part
    /// of what is written.
    fn save_pays_after(&self) -> u64 {
        lock(&self.core.public).heads.len() as u64 * ENTRY * 4
    }

    fn save_pays(&self) -> bool {
        self.tail.at - self.care.saved_at >= self.save_pays_after()
    }

    fn save_when_due(&mut self) {
        let every = match self.core.config.heads_every {
            0 => self.save_pays_after().max(HEADS_EVERY_LEAST),
            every => every,
        };
        if self.tail.at - self.care.saved_at >= every {
            self.save(Vec::new());
        }
    }

    fn clean_when_due(&mut self, short: bool) {
        // Counted in what frames took: the cleaner's own proofs must not call for the next round.
        let grown = match self.care.cleaned_at {
            None => self.tail.carried > 0,
            Some(at) => {
                self.tail.carried - at >= self.core.segments.size
                    || (self.care.postponed && self.save_pays())
            }
        };
        if !(grown || short) || self.care.saving || self.care.freeing {
            return;
        }
        self.care.cleaned_at = Some(self.tail.carried);
        let current = self.core.segments.of(self.tail.at);
        self.care.asked.begin(self.tail.carried, self.tail.used());
        let plan = {
            let public = lock(&self.core.public);
            cleaner::plan(&public, &self.core.segments, &self.care.asked, (current, short))
        };
        let wanted = self.care.asked.note(plan.wanted);
        if !wanted.is_empty() {
            self.core.wanted.wanted(wanted);
        }
        let pays = short || self.save_pays();
        self.care.postponed = !pays && !plan.free.is_empty();
        if pays && !plan.free.is_empty() {
            self.save(plan.free);
        }
    }

    /// Has the heads saved as they are on disk.
    fn save(&mut self, free: Vec<u64>) {
        if self.care.saving || self.tail.last.is_none() {
            return;
        }
        // Public heads may run ahead of the disk in `written`; an empty group never matters.
        if self.flush_at.is_some() && self.flush().is_err() {
            return;
        }
        if let Some(saved) = self.heads_on_disk() {
            self.care.saving = true;
            self.care.saved_at = self.tail.at;
            self.keeper.ask(&self.core, Chore::Save(Box::new(saved), free));
        }
    }

    /// The public heads and what they cover.
    fn heads_on_disk(&self) -> Option<SavedHeads> {
        let last = self.tail.last_flushed?;
        let (entries, attempts) = lock(&self.core.public).heads.export();
        Some(SavedHeads { position: self.tail.flushed, last, entries, attempts })
    }

    /// Nothing waits: proves the last group.
    pub(crate) fn go_idle(&mut self) {
        let proved = self.tail.last_is_empty || self.tail.last.is_none();
        let flushed = self.tail.is_flushed();
        let roomy = self.tail.ahead() >= BLOCK && self.core.room.short().is_none();
        if !proved
            && flushed
            && roomy
            && self.core.fault().is_none()
            && let Err(fault) = self.write_empty()
        {
            tracing::warn!(%fault, "the last group could not be proved");
        }
    }

    /// The orderly end: everything flushed, the last group proved on disk, the heads saved.
    pub(crate) fn finish(&mut self) -> Result<(), Fault> {
        if self.core.report.read_only.is_some() {
            return Ok(());
        }
        if let Some(fault) = self.core.fault() {
            return Err(fault);
        }
        self.flush()?;
        self.go_idle();
        self.flush()?;
        if let Some(saved) = self.heads_on_disk() {
            saved.write(&*self.core.disk).map_err(|error| unusable("save the heads", &error))?;
        }
        Ok(())
    }
}
