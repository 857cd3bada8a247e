//! Walking the log group by group: what recovery, the reader and verification share.
//!
//! **Boundary**: reads only. What damage means is decided by whoever walks.

use std::io;

use super::group::{BLOCK, GROUP_HEADER, GroupHeader, NO_GROUP, NoHeader};
use super::heads_file::LastGroup;
use super::segment::Segments;

const READ_AHEAD: usize = 256 << 10;
/// What is left of a segment is read at once when it is no more than this.
const READ_WHOLE: u64 = 64 << 10;

/// A part of the log in memory, moved along it.
pub(crate) struct Window<'a> {
    segments: &'a Segments,
    start: u64,
    bytes: Vec<u8>,
    probed: [u8; GROUP_HEADER],
}

impl<'a> Window<'a> {
    pub(crate) fn new(segments: &'a Segments) -> Self {
        Window { segments, start: 0, bytes: Vec::new(), probed: [0; GROUP_HEADER] }
    }

    /// The bytes from `position` on: `len` of them, or fewer where the segment ends.
    pub(crate) fn get(&mut self, position: u64, len: usize) -> io::Result<&[u8]> {
        let size = self.segments.size;
        let room = (size - position % size) as usize;
        let len = len.min(room);
        let held =
            position >= self.start && position + len as u64 <= self.start + self.bytes.len() as u64;
        if !held {
            self.bytes.clear();
            self.bytes.resize(len.max(READ_AHEAD).min(room), 0);
            self.start = position;
            if let Err(error) = self.segments.read(position, &mut self.bytes) {
                self.bytes.clear();
                return Err(error);
            }
        }
        let from = (position - self.start) as usize;
        Ok(self.bytes.get(from..from + len).unwrap_or_default())
    }

    /// As many bytes from `position` on as a header takes, without reading ahead.
    fn probe(&mut self, position: u64) -> io::Result<&[u8]> {
        let held = position >= self.start
            && position + GROUP_HEADER as u64 <= self.start + self.bytes.len() as u64;
        let size = self.segments.size;
        if held || size - position % size <= READ_WHOLE {
            return self.get(position, GROUP_HEADER);
        }
        self.segments.read(position, &mut self.probed)?;
        Ok(&self.probed)
    }

    /// The header at `position`, if one lies there and its group fits its segment.
    pub(crate) fn header(&mut self, position: u64) -> io::Result<Result<GroupHeader, NoHeader>> {
        let size = self.segments.size;
        let header = GroupHeader::decode(self.probe(position)?, position);
        Ok(match header {
            Ok(header) if position % size + u64::from(header.length) > size => Err(NoHeader::Other),
            header => header,
        })
    }

    /// The bytes of a group, without filling.
    pub(crate) fn group(&mut self, header: &GroupHeader) -> io::Result<&[u8]> {
        self.get(header.position, header.length as usize)
    }
}

/// Whether `header` comes next after `last`, or first. Groups whose positions are `gone`, since
/// their segments were freed, are stepped over.
pub(crate) fn follows(
    header: &GroupHeader,
    last: Option<&LastGroup>,
    gone: impl Fn(u64) -> bool,
) -> bool {
    let freed = |position: u64| position != NO_GROUP && gone(position);
    match last {
        None => header.previous == NO_GROUP || freed(header.previous),
        Some(last) => {
            let next = header.previous == last.position
                || (header.previous > last.position && freed(header.previous));
            next && header.number > last.number && header.run >= last.run
        }
    }
}

/// Whether a header, or what damage left of one, lies at a block's start in `[from, to)` of one
/// segment. Only as much of each block is looked at as a header takes: what a torn group left
/// elsewhere, without its header, is written over or passed, and never taken for anything.
pub(crate) fn has_headers(window: &mut Window<'_>, from: u64, to: u64) -> io::Result<bool> {
    let mut at = from;
    while at < to {
        if window.probe(at)?.iter().any(|byte| *byte != 0) {
            return Ok(true);
        }
        at += BLOCK;
    }
    Ok(false)
}

/// The position after the last byte that is not zero in `[from, to)` of one segment; `from` if
/// all are zero.
pub(crate) fn end_of_content(window: &mut Window<'_>, from: u64, to: u64) -> io::Result<u64> {
    let mut end = from;
    let mut at = from;
    while at < to {
        let len = (to - at).min(READ_AHEAD as u64);
        let bytes = window.get(at, len as usize)?;
        if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
            end = at + last as u64 + 1;
        }
        at += len;
    }
    Ok(end)
}

/// The greatest `flushed` and the greatest run that any header at or above `from` names.
pub(crate) fn claims(segments: &Segments, from: u64) -> io::Result<Claims> {
    let mut window = Window::new(segments);
    let mut claims = Claims::default();
    for number in segments.live() {
        claims.add(&mut window, number, from)?;
    }
    Ok(claims)
}

/// See [`claims`].
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Claims {
    pub(crate) flushed: u64,
    pub(crate) run: u64,
}

impl Claims {
    /// Adds what the headers of a segment, from `from` on, name.
    pub(crate) fn add(
        &mut self,
        window: &mut Window<'_>,
        number: u64,
        from: u64,
    ) -> io::Result<()> {
        let (start, size) = (window.segments.start(number), window.segments.size);
        let mut at = start.max(from.next_multiple_of(BLOCK));
        while at < start + size {
            if let Ok(header) = window.header(at)? {
                self.flushed = self.flushed.max(header.flushed);
                self.run = self.run.max(header.run);
            }
            at += BLOCK;
        }
        Ok(())
    }
}
