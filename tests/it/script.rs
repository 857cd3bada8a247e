//! What the sessions of a crash test do, from a seed.

use crate::chance::Chance;

/// One thing a session does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Act {
    Event { seat: usize, bytes: usize, lazy: bool },
    Snapshot { seat: usize, parts: usize },
    Reload { seat: usize },
    Urge,
}

/// A workload: mostly events of all sizes, a snapshot every few, now and then a new load.
pub(crate) fn script(seed: u64, n_acts: usize, n_seats: usize) -> Vec<Act> {
    let mut chance = Chance(seed);
    let mut act = || {
        let seat = chance.below(n_seats);
        match chance.below(20) {
            0..3 => Act::Snapshot { seat, parts: 1 + chance.below(3) },
            3 => Act::Reload { seat },
            4 => Act::Urge,
            5..8 => Act::Event { seat, bytes: 500 + chance.below(3_300), lazy: false },
            n => Act::Event { seat, bytes: chance.below(250), lazy: n > 16 },
        }
    };
    (0..n_acts).map(|_| act()).collect()
}
