//! Reading one session's frames back: replay and history, along its back-chain.
//!
//! **Invariant**: absent and unreadable are never confused: a frame that is needed and cannot be
//! read is a fault, not an end.

use std::collections::HashMap;
use std::io;

use super::frame::{FRAME_OVERHEAD, FrameHeader, Part};
use super::heads::Entry;
use super::meta::{corrupt, unusable};
use super::segment::Segments;
use crate::error::{Code, Fault};
use crate::persist::store::{FrameKind, HistoryPage, Replay, StoredFrame};
use crate::protocol::SessionId;

const FIRST_READ: usize = 1_024;

/// Reads the frame at `position`; `None` if it is damaged or its segment is gone.
pub(crate) fn read_frame(
    segments: &Segments,
    position: u64,
) -> io::Result<Option<(FrameHeader, Vec<u8>)>> {
    let room = (segments.size - position % segments.size) as usize;
    let mut bytes = vec![0; FIRST_READ.min(room)];
    match segments.read(position, &mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    }
    let Some(size) = FrameHeader::claimed_size(&bytes).filter(|size| *size <= room) else {
        return Ok(None);
    };
    if size > bytes.len() {
        let read = bytes.len();
        bytes.resize(size, 0);
        let rest = bytes.get_mut(read..).unwrap_or_default();
        segments.read(position + read as u64, rest)?;
    }
    Ok(FrameHeader::decode(&bytes, position).map(|(frame, payload)| (frame, payload.to_vec())))
}

/// A frame as callers see it.
pub(crate) fn stored(frame: &FrameHeader, payload: Vec<u8>, proved: bool) -> StoredFrame {
    let kind = match frame.part {
        None => FrameKind::Events,
        Some(Part { part, parts, .. }) => FrameKind::Snapshot { part, parts },
    };
    StoredFrame {
        position: frame.position,
        run: frame.run,
        previous: (frame.previous != 0).then_some(frame.previous),
        session: frame.session,
        kind,
        pending: frame.pending,
        time: frame.time,
        proved,
        payload,
    }
}

/// A chain being walked back.
struct Chain<'a> {
    segments: &'a Segments,
    session: SessionId,
    next: u64,
}

impl Chain<'_> {
    /// The next older frame, if the chain has one.
    fn older(&mut self) -> Result<Option<(FrameHeader, Vec<u8>)>, Fault> {
        if self.next == 0 {
            return Ok(None);
        }
        let position = self.next;
        let read = read_frame(self.segments, position)
            .map_err(|error| unusable("read the log", &error))?;
        let (frame, payload) =
            read.filter(|(frame, _)| frame.session == self.session).ok_or_else(|| {
                corrupt(format!("a frame that the session needs is damaged at {position}"))
            })?;
        self.next = frame.previous;
        Ok(Some((frame, payload)))
    }
}

/// What the session of `entry` is rebuilt from.
///
/// # Errors
/// `JOURNAL_CORRUPT` when a needed frame is damaged, `STORE_UNUSABLE` when the disk fails.
pub(crate) fn replay(segments: &Segments, entry: &Entry) -> Result<Replay, Fault> {
    let mut chain = Chain { segments, session: entry.session, next: entry.position };
    let mut replay = Replay::default();
    let mut attempt = Parts::default();
    while let Some((frame, payload)) = chain.older()? {
        match frame.part {
            None => replay.frames.push(stored(&frame, payload, true)),
            Some(part) if attempt.take(part, payload) => {
                replay.snapshot = attempt.in_order();
                replay.frames.retain(|frame| frame.position > part.as_of);
                while chain.next > part.as_of {
                    let Some((frame, payload)) = chain.older()? else { break };
                    if frame.part.is_none() {
                        replay.frames.push(stored(&frame, payload, true));
                    }
                }
                break;
            }
            Some(_) => {}
        }
    }
    replay.frames.reverse();
    Ok(replay)
}

/// The parts of one snapshot, gathered from the last to the first.
#[derive(Default)]
struct Parts {
    expected: Option<Part>,
    gathered: Vec<Vec<u8>>,
}

impl Parts {
    /// Takes the next older part; whether the snapshot is complete now.
    fn take(&mut self, part: Part, payload: Vec<u8>) -> bool {
        if self.expected != Some(part) {
            self.gathered.clear();
            self.expected = None;
            if part.part + 1 != part.parts {
                return false;
            }
        }
        self.gathered.push(payload);
        self.expected = part.part.checked_sub(1).map(|older| Part { part: older, ..part });
        part.part == 0
    }

    fn in_order(&mut self) -> Vec<Vec<u8>> {
        let mut parts = std::mem::take(&mut self.gathered);
        parts.reverse();
        parts
    }
}

/// One page of a session's frames, newest first, from `from` on.
///
/// # Errors
/// As [`replay`], and `INVALID_ARGUMENT` when no frame can be read at `before`.
pub(crate) fn history(
    segments: &Segments,
    entry: &Entry,
    before: Option<u64>,
    limit: usize,
) -> Result<HistoryPage, Fault> {
    let mut page = HistoryPage::default();
    let next = match before {
        None => entry.position,
        Some(before) => {
            let read =
                read_frame(segments, before).map_err(|error| unusable("read the log", &error))?;
            match read {
                Some((frame, _)) if frame.session == entry.session => frame.previous,
                Some(_) => return Ok(page),
                None if !segments.exists(segments.of(before)) => return Ok(page),
                None => {
                    let text = "the page begins at no frame of the session";
                    return Err(Fault::new(Code::InvalidArgument, text));
                }
            }
        }
    };
    let mut chain = Chain { segments, session: entry.session, next };
    let mut known = HashMap::new();
    while page.frames.len() < limit {
        if chain.next < entry.low && !exists(segments, &mut known, chain.next) {
            return Ok(page);
        }
        let Some((frame, payload)) = chain.older()? else { return Ok(page) };
        if frame.part.is_none() {
            page.frames.push(stored(&frame, payload, true));
        }
    }
    page.next = page.frames.last().map(|frame| frame.position).filter(|_| {
        chain.next != 0 && (chain.next >= entry.low || exists(segments, &mut known, chain.next))
    });
    Ok(page)
}

fn exists(segments: &Segments, known: &mut HashMap<u64, bool>, position: u64) -> bool {
    let number = segments.of(position);
    *known.entry(number).or_insert_with(|| segments.exists(number))
}

const _: () = assert!(FIRST_READ > FRAME_OVERHEAD, "the first read shows the whole header");
