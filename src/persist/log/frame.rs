//! The bytes of one frame: one transaction of one session, or one part of a snapshot.
//!
//! **Invariant**: a frame is taken for whole only if its checksum holds and it lies where it says
//! it lies; it names the run and the group that wrote it, so that what an earlier, failed write
//! left behind is never taken for it.
//!
//! The layout is in `docs/journal.md`.

use super::bytes::{Reading, crc_from, put_u32, put_u64, set_u32};
use crate::protocol::{SessionId, Timestamp};

/// Bytes before the payload of a frame of events.
pub(crate) const FRAME_HEADER: usize = 68;
/// Further bytes before the payload of a snapshot's part.
pub(crate) const PART_FIELDS: usize = 16;
/// The most bytes a frame has beside its payload.
pub(crate) const FRAME_OVERHEAD: usize = FRAME_HEADER + PART_FIELDS;

const SNAPSHOT: u32 = 1;
const PENDING: u32 = 2;

/// Which part of a snapshot a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// From 0.
    pub(crate) part: u32,
    /// How many there are.
    pub(crate) parts: u32,
    /// The position of the session's frame that the snapshot is the state after; 0 for none.
    pub(crate) as_of: u64,
}

/// What a frame says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) position: u64,
    pub(crate) run: u64,
    /// The number of its group.
    pub(crate) group: u64,
    pub(crate) session: SessionId,
    /// The position of the session's frame before it; 0 for none.
    pub(crate) previous: u64,
    pub(crate) time: Timestamp,
    pub(crate) pending: bool,
    pub(crate) part: Option<Part>,
    /// Bytes of payload.
    pub(crate) length: u32,
}

impl FrameHeader {
    /// Bytes of the whole frame.
    pub(crate) fn size(&self) -> usize {
        let fields = if self.part.is_some() { FRAME_OVERHEAD } else { FRAME_HEADER };
        fields + self.length as usize
    }

    /// Appends the frame; `length` must be the payload's.
    pub(crate) fn encode(&self, payload: &[u8], into: &mut Vec<u8>) {
        debug_assert_eq!(payload.len(), self.length as usize, "a frame knows its length");
        let start = into.len();
        into.reserve(self.size());
        put_u32(into, 0);
        put_u32(into, self.length);
        put_u64(into, self.position);
        put_u64(into, self.run);
        put_u64(into, self.group);
        into.extend_from_slice(&self.session.to_bytes());
        put_u64(into, self.previous);
        put_u64(into, self.time.0);
        let flags =
            if self.part.is_some() { SNAPSHOT } else { 0 } | if self.pending { PENDING } else { 0 };
        put_u32(into, flags);
        if let Some(part) = self.part {
            put_u32(into, part.part);
            put_u32(into, part.parts);
            put_u64(into, part.as_of);
        }
        into.extend_from_slice(payload);
        let crc = crc_from(into, start + 4);
        set_u32(into, start, crc);
    }

    /// The bytes that the frame at the start of `bytes` claims to have, unchecked; `None` when
    /// there are too few bytes to tell.
    pub(crate) fn claimed_size(bytes: &[u8]) -> Option<usize> {
        let length = Reading::new(bytes.get(4..)?).u32()?;
        let flags = Reading::new(bytes.get(64..)?).u32()?;
        let fields = if flags & SNAPSHOT == 0 { FRAME_HEADER } else { FRAME_OVERHEAD };
        Some(fields + length as usize)
    }

    /// Reads the frame at the start of `bytes`, which lies at `position`. `None` if it is not
    /// whole.
    pub(crate) fn decode(bytes: &[u8], position: u64) -> Option<(FrameHeader, &[u8])> {
        let bytes = bytes.get(..Self::claimed_size(bytes)?)?;
        let mut reading = Reading::new(bytes);
        if reading.u32()? != crc_from(bytes, 4) {
            return None;
        }
        let length = reading.u32()?;
        let own = reading.u64()?;
        let (run, group) = (reading.u64()?, reading.u64()?);
        let session = reading.session()?;
        let (previous, time) = (reading.u64()?, Timestamp(reading.u64()?));
        let flags = reading.u32()?;
        let part = if flags & SNAPSHOT == 0 {
            None
        } else {
            Some(Part { part: reading.u32()?, parts: reading.u32()?, as_of: reading.u64()? })
        };
        let known = flags & !(SNAPSHOT | PENDING) == 0;
        if own != position || previous >= position || !known {
            return None;
        }
        let pending = flags & PENDING != 0;
        let header =
            FrameHeader { position, run, group, session, previous, time, pending, part, length };
        Some((header, reading.take(length as usize)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn frame(payload: &[u8]) -> FrameHeader {
        FrameHeader {
            position: 4_160,
            run: 3,
            group: 9,
            session: SessionId::from_bytes([7; 16]),
            previous: 64,
            time: Timestamp(1_700_000_000_123),
            pending: true,
            part: Some(Part { part: 1, parts: 2, as_of: 64 }),
            length: payload.len() as u32,
        }
    }

    #[test]
    fn a_frame_reads_back_as_it_was_written() {
        for part in [None, Some(Part { part: 0, parts: 1, as_of: 0 })] {
            let header = FrameHeader { part, ..frame(b"[1,2]") };
            let mut bytes = Vec::new();
            header.encode(b"[1,2]", &mut bytes);
            assert_eq!(bytes.len(), header.size());
            assert_eq!(FrameHeader::decode(&bytes, 4_160), Some((header, &b"[1,2]"[..])));
        }
    }

    #[test]
    fn f35_no_flipped_bit_and_no_missing_byte_reads_as_a_frame() {
        let mut bytes = Vec::new();
        frame(b"[\"hello\"]").encode(b"[\"hello\"]", &mut bytes);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FrameHeader::decode(&damaged, 4_160), None, "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert_eq!(FrameHeader::decode(&bytes[..len], 4_160), None, "length {len}");
        }
        assert_eq!(FrameHeader::decode(&bytes, 4_161), None, "a frame lies where it says");
    }
}
