//! Reading and writing little-endian numbers.
//!
//! **Invariant**: reading past the end gives `None`, never a panic.

use crate::protocol::SessionId;

/// What is left to read of some bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading<'a> {
    rest: &'a [u8],
}

impl<'a> Reading<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reading { rest: bytes }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(head)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn session(&mut self) -> Option<SessionId> {
        self.array().map(SessionId::from_bytes)
    }
}

/// Appends a number.
pub(crate) fn put_u32(into: &mut Vec<u8>, number: u32) {
    into.extend_from_slice(&number.to_le_bytes());
}

/// Appends a number.
pub(crate) fn put_u64(into: &mut Vec<u8>, number: u64) {
    into.extend_from_slice(&number.to_le_bytes());
}

/// Writes a number over the four bytes at `at`, which must be there.
pub(crate) fn set_u32(bytes: &mut [u8], at: usize, number: u32) {
    let place = bytes.get_mut(at..at + 4);
    debug_assert!(place.is_some(), "a number is set inside the bytes");
    if let Some(place) = place {
        place.copy_from_slice(&number.to_le_bytes());
    }
}

/// The checksum of the bytes from `from` on.
pub(crate) fn crc_from(bytes: &[u8], from: usize) -> u32 {
    crc32c::crc32c(bytes.get(from..).unwrap_or_default())
}
