//! The walk of recovery along the log: takes whole groups into the heads and says what is damaged.
//!
//! **Invariant**: reads only; damage at or above what any header says is on disk ends the walk
//! (it is an unproved tail), damage below it is rot and never ends it.

use super::group::{BLOCK, GroupHeader, NoHeader};
use super::heads::{Heads, Link};
use super::heads_file::{LastGroup, SavedHeads};
use super::meta::{unknown_version, unusable};
use super::replay::replay;
use super::scan::{Claims, Window, claims, follows, has_headers};
use super::segment::Segments;
use crate::error::Fault;
use crate::protocol::SessionId;

/// What the walk found.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    pub(crate) heads: Heads,
    /// Where the last whole group ends.
    pub(crate) end: u64,
    /// What the saved heads cover; 0 where they were of no use.
    pub(crate) covered: u64,
    pub(crate) last: Option<LastGroup>,
    /// Everything below is known to have been on disk.
    pub(crate) proved: u64,
    /// The greatest run seen.
    pub(crate) run: u64,
    /// Where an unproved tail's damage begins.
    pub(crate) cut: Option<u64>,
    /// Where rot left the owners of frames unknown.
    pub(crate) unknown: Option<u64>,
    /// Damaged frames below the proved position.
    pub(crate) rot: Vec<(SessionId, u64)>,
    /// Sessions whose first frame that was found is not their first.
    pub(crate) begun_elsewhere: Vec<SessionId>,
    pub(crate) groups: u64,
    pub(crate) frames: u64,
}

/// Whether a session that was quarantined can be replayed again, since what was damaged was
/// restored: what the heads say of damage is judged anew then.
fn any_is_mended(segments: &Segments, saved: &SavedHeads) -> bool {
    let mut quarantined = saved.entries.iter().filter(|entry| entry.quarantined);
    quarantined.any(|entry| replay(segments, entry).is_ok())
}

enum Step {
    Next(u64),
    NothingMore,
    Cut,
}

/// Walks from the saved heads, or over all segments.
pub(crate) fn walk(segments: &Segments, saved: Option<SavedHeads>) -> Result<Walked, Fault> {
    let read_error = |error| unusable("read the log", &error);
    let mut walk = Walk {
        segments,
        window: Window::new(segments),
        found: Walked::default(),
        claims: None,
        gap: false,
    };
    let from = walk.begin(saved).map_err(read_error)?;
    walk.run(from)?;
    let found = walk.found;
    Ok(found)
}

struct Walk<'a> {
    segments: &'a Segments,
    window: Window<'a>,
    found: Walked,
    claims: Option<Claims>,
    /// Rot was stepped over: the next group need not follow the last one.
    gap: bool,
}

impl Walk<'_> {
    /// Takes over the saved heads if the log bears them out; gives the position to walk from.
    fn begin(&mut self, saved: Option<SavedHeads>) -> std::io::Result<u64> {
        let Some(saved) = saved else { return Ok(0) };
        self.found.proved = saved.position;
        self.found.run = saved.last.run;
        if !self.segments.is_live(saved.last.position) {
            return Ok(0);
        }
        let Ok(header) = self.window.header(saved.last.position)? else { return Ok(0) };
        let same = header.number == saved.last.number
            && header.run == saved.last.run
            && header.end() == saved.position;
        if !same || any_is_mended(self.segments, &saved) {
            return Ok(0);
        }
        self.found.heads = Heads::import(saved.entries, saved.attempts);
        (self.found.end, self.found.covered) = (saved.position, saved.position);
        self.found.last = Some(saved.last);
        Ok(saved.position)
    }

    fn run(&mut self, from: u64) -> Result<(), Fault> {
        for number in self.segments.live() {
            let start = self.segments.start(number);
            let stop = start + self.segments.size;
            let mut at = start.max(from);
            while at < stop {
                match self.step(at, stop)? {
                    Step::Next(next) => at = next,
                    Step::NothingMore => break,
                    Step::Cut => {
                        self.found.cut = Some(at);
                        return Ok(());
                    }
                }
            }
        }
        if self.found.end < self.found.proved && self.found.unknown.is_none() {
            self.found.unknown = Some(self.found.end);
        }
        Ok(())
    }

    fn step(&mut self, at: u64, stop: u64) -> Result<Step, Fault> {
        let read_error = |error| unusable("read the log", &error);
        let header = match self.window.header(at).map_err(read_error)? {
            Ok(header) => Some(header),
            Err(NoHeader::Version(version)) => return Err(unknown_version(version)),
            Err(NoHeader::Other) => None,
        };
        if let Some(header) = header.filter(|header| self.comes_next(header)) {
            match self.group(&header).map_err(read_error)? {
                Some(step) => return Ok(step),
                None => return self.broken(at, BLOCK),
            }
        }
        if !has_headers(&mut self.window, at, stop).map_err(read_error)? {
            return Ok(Step::NothingMore);
        }
        let again = header.is_some() && !self.gap;
        self.broken(at, if again { 0 } else { BLOCK })
    }

    fn comes_next(&self, header: &GroupHeader) -> bool {
        let last = self.found.last.as_ref();
        if self.gap {
            return last.is_none_or(|last| header.number > last.number && header.run >= last.run);
        }
        follows(header, last, |position| !self.segments.is_live(position))
    }

    /// No group can be read at `at`: an unproved tail's end, or rot with unknown owners.
    fn broken(&mut self, at: u64, step: u64) -> Result<Step, Fault> {
        if at >= self.proved(at)? {
            return Ok(Step::Cut);
        }
        self.found.unknown.get_or_insert(at);
        self.gap = true;
        Ok(Step::Next(at + step))
    }

    /// What was on disk according to every header, those above `at` among them.
    fn proved(&mut self, at: u64) -> Result<u64, Fault> {
        if self.claims.is_none() {
            let found =
                claims(self.segments, at).map_err(|error| unusable("read the log", &error))?;
            self.found.proved = self.found.proved.max(found.flushed);
            self.found.run = self.found.run.max(found.run);
            self.claims = Some(found);
        }
        Ok(self.found.proved)
    }

    /// Takes a group; `None` if its list of owners is damaged.
    fn group(&mut self, header: &GroupHeader) -> std::io::Result<Option<Step>> {
        let bytes = self.window.group(header)?;
        let Some(owners) = header.owners(bytes) else { return Ok(None) };
        let frames: Vec<_> = owners
            .iter()
            .map(|owner| (*owner, header.frame(bytes, *owner).map(|(frame, _)| frame)))
            .collect();
        let whole = frames.iter().all(|(_, frame)| frame.is_some());
        if !whole {
            match self.proved(header.position) {
                Ok(proved) if header.position >= proved => return Ok(Some(Step::Cut)),
                Ok(_) => {}
                Err(fault) => return Err(std::io::Error::other(fault)),
            }
        }
        for (owner, frame) in &frames {
            let position = header.position + u64::from(owner.offset);
            match frame {
                Some(frame) => {
                    let slot = self.found.heads.slot(frame.session);
                    if frame.previous != 0 && self.found.heads.position(slot) == 0 {
                        self.found.begun_elsewhere.push(frame.session);
                    }
                    self.found.heads.apply(slot, Link::from(frame));
                    self.found.frames += 1;
                }
                None => {
                    self.found.heads.damaged(owner.session, position);
                    self.found.rot.push((owner.session, position));
                }
            }
        }
        self.found.groups += 1;
        self.found.end = header.end();
        self.found.run = self.found.run.max(header.run);
        self.found.proved = self.found.proved.max(header.flushed);
        self.found.last =
            Some(LastGroup { position: header.position, number: header.number, run: header.run });
        self.gap = false;
        Ok(Some(Step::Next(header.end())))
    }
}
