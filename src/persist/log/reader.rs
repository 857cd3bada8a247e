//! Reading a data directory without owning it: dump and verification, also while another process
//! holds the store.
//!
//! **Invariant**: writes nothing, takes no lock, cuts nothing and quarantines nobody. It stops at
//! the last whole group; what lies above what any header says is on disk is marked unproved.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use super::freed::first_loss;
use super::group::{BLOCK, GroupHeader, NoHeader, Owner};
use super::heads_file::{LastGroup, SavedHeads};
use super::meta::{Meta, unknown_version, unusable};
use super::open::check_unused;
use super::replay::stored;
use super::scan::{Claims, Window, end_of_content, follows, has_headers};
use super::segment::Segments;
use crate::error::{Code, Fault};
use crate::persist::disk::Disk;
use crate::persist::store::StoredFrame;
use crate::protocol::SessionId;

/// How often a segment is looked for again that is listed and cannot be found.
const LOOKS_MAX: usize = 8;

/// What is wrong somewhere in the log.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Damage {
    /// Logical offset.
    pub position: u64,
    /// One sentence, lowercase.
    pub what: String,
    /// Whose frames are lost; empty when that is unknown.
    pub sessions: Vec<SessionId>,
}

/// What verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct VerifyReport {
    /// Whole groups, empty ones among them.
    pub groups: u64,
    /// Whole frames in them.
    pub frames: u64,
    /// Sessions with at least one.
    pub sessions: u64,
    /// Bytes from the start of each segment to the end of its last group.
    pub bytes: u64,
    /// Bytes above what is known to be on disk: not yet proved, or the rest of a torn write.
    pub unproved_bytes: u64,
    /// Damage below that.
    pub damage: Vec<Damage>,
}

/// A data directory that is only read.
pub struct LogReader {
    disk: Arc<dyn Disk>,
    segments: Segments,
}

impl LogReader {
    /// Opens a data directory for reading. Works while another process holds the store.
    ///
    /// # Errors
    /// `NOT_FOUND` when there is no journal, `JOURNAL_VERSION`, `JOURNAL_CORRUPT` for a directory
    /// that does not say what it is, `STORE_UNUSABLE` when it cannot be read.
    pub fn open(disk: Arc<dyn Disk>) -> Result<LogReader, Fault> {
        let Some(meta) = Meta::read(&*disk)? else {
            check_unused(&*disk)?;
            return Err(Fault::new(Code::NotFound, "there is no journal in this directory"));
        };
        let segments = Segments::list(disk.clone(), meta.segment_bytes, true)
            .map_err(|error| unusable("list the segments", &error))?;
        Ok(LogReader { disk, segments })
    }

    /// Gives every whole frame in log order, those of freed segments that were kept among them.
    /// Damaged frames are left out; [`LogReader::verify`] names them.
    ///
    /// # Errors
    /// `JOURNAL_VERSION`, or `STORE_UNUSABLE` when it cannot be read.
    pub fn frames(&self, each: &mut dyn FnMut(StoredFrame)) -> Result<(), Fault> {
        let flushed = self.flushed()?;
        self.walk(flushed, &mut |found| {
            if let Found::Group { header, owners, bytes } = found {
                for owner in owners {
                    let Some((frame, payload)) = header.frame(bytes, *owner) else { continue };
                    each(stored(&frame, payload.to_vec(), frame.position < flushed));
                }
            }
        })?;
        Ok(())
    }

    /// Reads everything and says what is damaged.
    ///
    /// # Errors
    /// `JOURNAL_VERSION`, or `STORE_UNUSABLE` when it cannot be read.
    pub fn verify(&self) -> Result<VerifyReport, Fault> {
        let flushed = self.flushed()?;
        let mut report = VerifyReport::default();
        let mut sessions = BTreeSet::new();
        let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
        self.walk(flushed, &mut |found| match found {
            Found::Group { header, owners, bytes } => {
                report.groups += 1;
                let end = ends.entry(self.segments.of(header.position)).or_default();
                *end = header.end() - self.segments.start(self.segments.of(header.position));
                if header.end() > flushed {
                    report.unproved_bytes += header.end() - header.position.max(flushed);
                }
                let mut lost = BTreeMap::new();
                for owner in owners {
                    if header.frame(bytes, *owner).is_some() {
                        report.frames += 1;
                        sessions.insert(owner.session);
                    } else {
                        lost.entry(header.position + u64::from(owner.offset))
                            .or_insert(owner.session);
                    }
                }
                report.damage.extend(lost.into_iter().map(|(position, session)| Damage {
                    position,
                    what: "a frame is damaged".to_owned(),
                    sessions: vec![session],
                }));
            }
            Found::Unknown(position) => report.damage.push(Damage {
                position,
                what: "a group's header is damaged or missing".to_owned(),
                sessions: Vec::new(),
            }),
            Found::Torn(bytes) => report.unproved_bytes += bytes,
        })?;
        let known = report.damage.iter().all(|damage| !damage.sessions.is_empty());
        if known {
            report.damage.extend(self.loss()?);
        }
        report.sessions = sessions.len() as u64;
        report.bytes = ends.values().sum();
        Ok(report)
    }

    /// A segment that lost its length or is gone, as opening looks for it.
    fn loss(&self) -> Result<Option<Damage>, Fault> {
        let position = first_loss(&*self.disk, &self.segments, (0, u64::MAX))?;
        let what = "a segment is missing, or shorter than it was made".to_owned();
        Ok(position.map(|position| Damage { position, what, sessions: Vec::new() }))
    }

    /// What the saved heads and every header say is on disk. The segments are listed after the
    /// heads were read, so that the heads never know of one that the list lacks.
    fn flushed(&self) -> Result<u64, Fault> {
        let saved = SavedHeads::read(&*self.disk)?.map_or(0, |saved| saved.position);
        let read_error = |error| unusable("read the log", &error);
        self.segments.list_again().map_err(read_error)?;
        let (mut window, mut claims) = (Window::new(&self.segments), Claims::default());
        for number in self.segments.live() {
            match claims.add(&mut window, number, 0) {
                // It was freed meanwhile; later headers say more than it did.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                added => added.map_err(read_error)?,
            }
        }
        Ok(claims.flushed.max(saved))
    }

    fn walk(&self, flushed: u64, each: &mut dyn FnMut(Found<'_>)) -> Result<(), Fault> {
        let mut walk = Walk {
            segments: &self.segments,
            window: Window::new(&self.segments),
            flushed,
            end: 0,
            last: None,
            gap: false,
            version: None,
        };
        walk.run(each).map_err(|error| unusable("read the log", &error))?;
        walk.version.map_or(Ok(()), |version| Err(unknown_version(version)))
    }
}

enum Found<'a> {
    Group {
        header: &'a GroupHeader,
        owners: &'a [Owner],
        bytes: &'a [u8],
    },
    /// Damage below what is on disk, with unknown owners.
    Unknown(u64),
    /// Bytes of a torn write at the end.
    Torn(u64),
}

struct Walk<'a> {
    segments: &'a Segments,
    window: Window<'a>,
    flushed: u64,
    /// Where the last group ends.
    end: u64,
    last: Option<LastGroup>,
    gap: bool,
    version: Option<u32>,
}

enum Step {
    Next(u64),
    NextSegment,
    End,
}

impl Walk<'_> {
    fn run(&mut self, each: &mut dyn FnMut(Found<'_>)) -> io::Result<()> {
        let mut next = 0;
        while let Some(number) = self.segments.next_from(next) {
            if !self.segment(number, each)? || self.version.is_some() {
                return Ok(());
            }
            next = number + 1;
        }
        if self.end < self.flushed && !self.gap {
            each(Found::Unknown(self.end));
        }
        Ok(())
    }

    /// Walks along one segment; whether the log goes on after it. One that was freed meanwhile is
    /// found where it is kept, or is passed where it was dropped.
    fn segment(&mut self, number: u64, each: &mut dyn FnMut(Found<'_>)) -> io::Result<bool> {
        let mut at = self.segments.start(number);
        let stop = at + self.segments.size;
        let mut n_looks = 0;
        while at < stop {
            match self.step(at, stop, each) {
                Ok(Step::Next(next)) => at = next,
                Ok(Step::NextSegment) => break,
                Ok(Step::End) => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::NotFound && n_looks < LOOKS_MAX => {
                    n_looks += 1;
                    self.segments.list_again()?;
                    if !self.segments.exists(number) {
                        break;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn step(&mut self, at: u64, stop: u64, each: &mut dyn FnMut(Found<'_>)) -> io::Result<Step> {
        if let Some(next) = self.group(at, each)? {
            self.end = next;
            return Ok(Step::Next(next));
        }
        if !has_headers(&mut self.window, at, stop)? {
            return Ok(Step::NextSegment);
        }
        if at >= self.flushed {
            let content = end_of_content(&mut self.window, at, stop)?;
            each(Found::Torn(content - at));
            return Ok(Step::End);
        }
        if std::mem::replace(&mut self.gap, true) {
            return Ok(Step::Next(at + BLOCK));
        }
        each(Found::Unknown(at));
        Ok(Step::Next(at))
    }

    /// Gives the group at `at`, if a whole one that comes next lies there, and where it ends.
    fn group(&mut self, at: u64, each: &mut dyn FnMut(Found<'_>)) -> io::Result<Option<u64>> {
        let header = match self.window.header(at)? {
            Ok(header) => header,
            Err(NoHeader::Version(version)) => {
                self.version = Some(version);
                return Ok(None);
            }
            Err(NoHeader::Other) => return Ok(None),
        };
        let known = self.last.as_ref();
        let next = if self.gap {
            known.is_none_or(|last| header.number > last.number && header.run >= last.run)
        } else {
            let segments = self.segments;
            follows(&header, known, |position| !segments.exists(segments.of(position)))
        };
        if !next {
            return Ok(None);
        }
        let bytes = self.window.group(&header)?;
        let Some(owners) = header.owners(bytes) else { return Ok(None) };
        let whole = owners.iter().all(|owner| header.frame(bytes, *owner).is_some());
        if !whole && at >= self.flushed {
            return Ok(None);
        }
        each(Found::Group { header: &header, owners: &owners, bytes });
        self.last =
            Some(LastGroup { position: header.position, number: header.number, run: header.run });
        self.gap = false;
        Ok(Some(header.end()))
    }
}
