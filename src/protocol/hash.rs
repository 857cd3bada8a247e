//! Hashing of ids, for tables that every message looks into.
//!
//! **Boundary**: ids are made here, at random or by the clock, never taken from outside: nobody can
//! choose them so that they collide.

use std::hash::{BuildHasherDefault, Hasher};

/// Hashes ids, which are spread evenly already.
pub(crate) type IdHash = BuildHasherDefault<IdHasher>;

/// See [`IdHash`].
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(chunk) {
                *to = *from;
            }
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(26) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, _: usize) {}
}
