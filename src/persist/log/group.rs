//! The bytes of one group: what one commit writes and one flush covers.
//!
//! **Invariant**: a group starts on a block boundary, never crosses a segment, and names the
//! sessions of its frames with their places, so that a damaged frame has a known owner.
//!
//! A header of 68 bytes with its own checksum, the frames, then the list of owners, whose
//! checksum the header holds. The list comes last because frames are encoded while more arrive.
//! The layout is in `docs/journal.md`.

use super::bytes::{Reading, crc_from, put_u32, put_u64, set_u32};
use super::frame::{FRAME_OVERHEAD, FrameHeader};
use crate::protocol::SessionId;

/// Groups start at multiples of this, in bytes.
pub(crate) const BLOCK: u64 = 4_096;
/// Bytes before the first frame.
pub(crate) const GROUP_HEADER: usize = 68;
/// Bytes of one owner in the list.
pub(crate) const OWNER: usize = 20;
/// The version of the journal that is written.
pub(crate) const VERSION: u32 = 1;
/// What stands for "no group before".
pub(crate) const NO_GROUP: u64 = u64::MAX;
/// A byte that UTF-8 cannot hold and one that JSON cannot.
pub(crate) const MAGIC: [u8; 8] = *b"\xff\0cbgrp\0";

/// What a group says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupHeader {
    pub(crate) position: u64,
    /// Position of the group before it, or [`NO_GROUP`].
    pub(crate) previous: u64,
    pub(crate) number: u64,
    pub(crate) run: u64,
    /// Everything below this position was on disk when the group was written.
    pub(crate) flushed: u64,
    /// Bytes from its start to the end of its list, without what fills the last block.
    pub(crate) length: u32,
    /// How many frames.
    pub(crate) frames: u32,
    /// Checksum of the list of owners.
    pub(crate) list_crc: u32,
}

/// Why bytes are no group header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoHeader {
    /// Zeros, or anything else.
    Other,
    /// A whole header of a version this program does not know.
    Version(u32),
}

/// Whose frame lies where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) session: SessionId,
    /// Bytes from the group's start.
    pub(crate) offset: u32,
}

impl GroupHeader {
    /// Where the next group may start.
    pub(crate) fn end(&self) -> u64 {
        (self.position + u64::from(self.length)).next_multiple_of(BLOCK)
    }

    /// Bytes of the list of owners.
    pub(crate) fn list_bytes(&self) -> usize {
        self.frames as usize * OWNER
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(GROUP_HEADER);
        bytes.extend_from_slice(&MAGIC);
        put_u32(&mut bytes, 0);
        put_u32(&mut bytes, VERSION);
        put_u64(&mut bytes, self.position);
        put_u64(&mut bytes, self.previous);
        put_u64(&mut bytes, self.number);
        put_u64(&mut bytes, self.run);
        put_u64(&mut bytes, self.flushed);
        put_u32(&mut bytes, self.length);
        put_u32(&mut bytes, self.frames);
        put_u32(&mut bytes, self.list_crc);
        let crc = crc_from(&bytes, 12);
        set_u32(&mut bytes, 8, crc);
        bytes
    }

    /// Reads the header at the start of `bytes`, which lies at `position`.
    pub(crate) fn decode(bytes: &[u8], position: u64) -> Result<GroupHeader, NoHeader> {
        Self::read(bytes, position).unwrap_or(Err(NoHeader::Other))
    }

    fn read(bytes: &[u8], position: u64) -> Option<Result<GroupHeader, NoHeader>> {
        let bytes = bytes.get(..GROUP_HEADER)?;
        let mut reading = Reading::new(bytes);
        if reading.array()? != MAGIC || reading.u32()? != crc_from(bytes, 12) {
            return None;
        }
        let version = reading.u32()?;
        if version != VERSION {
            return Some(Err(NoHeader::Version(version)));
        }
        let header = GroupHeader {
            position: reading.u64()?,
            previous: reading.u64()?,
            number: reading.u64()?,
            run: reading.u64()?,
            flushed: reading.u64()?,
            length: reading.u32()?,
            frames: reading.u32()?,
            list_crc: reading.u32()?,
        };
        let sound = header.position == position
            && header.flushed <= position
            && header.length as usize >= GROUP_HEADER + header.list_bytes();
        sound.then_some(Ok(header))
    }

    /// The owners of the frames of the group whose bytes, without filling, are `group`. `None` if
    /// the list is damaged.
    pub(crate) fn owners(&self, group: &[u8]) -> Option<Vec<Owner>> {
        let list = group.get((self.length as usize).checked_sub(self.list_bytes())?..)?;
        let list = list.get(..self.list_bytes())?;
        if crc32c::crc32c(list) != self.list_crc {
            return None;
        }
        let mut reading = Reading::new(list);
        (0..self.frames)
            .map(|_| Some(Owner { session: reading.session()?, offset: reading.u32()? }))
            .collect()
    }

    /// The frame of `owner` in the group whose bytes are `group`; `None` if it is damaged.
    pub(crate) fn frame<'a>(
        &self,
        group: &'a [u8],
        owner: Owner,
    ) -> Option<(FrameHeader, &'a [u8])> {
        let position = self.position + u64::from(owner.offset);
        let (frame, payload) = FrameHeader::decode(group.get(owner.offset as usize..)?, position)?;
        let mine =
            frame.session == owner.session && frame.run == self.run && frame.group == self.number;
        mine.then_some((frame, payload))
    }
}

/// A group being put together.
#[derive(Debug)]
pub(crate) struct GroupBuilder {
    header: GroupHeader,
    bytes: Vec<u8>,
    list: Vec<u8>,
}

impl GroupBuilder {
    /// A group without frames; `buffer` lends its memory. The lengths in `header` are filled in
    /// when it is finished.
    pub(crate) fn new(header: GroupHeader, mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.resize(GROUP_HEADER, 0);
        GroupBuilder { header, bytes: buffer, list: Vec::new() }
    }

    /// Where the next frame comes to lie.
    pub(crate) fn next_position(&self) -> u64 {
        self.header.position + self.bytes.len() as u64
    }

    /// The bytes the group would have with one more frame of `payload` bytes.
    pub(crate) fn len_with(&self, payload: usize) -> usize {
        self.bytes.len() + FRAME_OVERHEAD + payload + self.list.len() + OWNER
    }

    /// Whether it has no frame.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds a frame.
    pub(crate) fn push(&mut self, frame: &FrameHeader, payload: &[u8]) {
        debug_assert_eq!(frame.position, self.next_position(), "a frame lies where it says");
        self.list.extend_from_slice(&frame.session.to_bytes());
        put_u32(&mut self.list, self.bytes.len() as u32);
        frame.encode(payload, &mut self.bytes);
    }

    /// The header, and the bytes to write: whole blocks.
    pub(crate) fn finish(mut self) -> (GroupHeader, Vec<u8>) {
        self.bytes.extend_from_slice(&self.list);
        self.header.length = self.bytes.len() as u32;
        self.header.frames = (self.list.len() / OWNER) as u32;
        self.header.list_crc = crc32c::crc32c(&self.list);
        if let Some(place) = self.bytes.get_mut(..GROUP_HEADER) {
            place.copy_from_slice(&self.header.encode());
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK as usize), 0);
        (self.header, self.bytes)
    }
}
