//! Who sends to whom.
//!
//! **Invariant**: the target of an order follows from the plan, the client and the order's number
//! alone, so that a process that was started again sends to the same one.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Members of one group in [`Pairs::Groups`].
const GROUP: usize = 10;

/// Who sends to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pairs {
    /// Each session to the next one.
    Ring,
    /// Each message to any other session.
    Random,
    /// All to the first session, and that one to each of them in turn.
    Hub,
    /// Each message to any other session of the sender's group of ten.
    Groups,
}

impl Pairs {
    /// To whom `client` of `sessions` sends its order `number`.
    pub(super) fn target(self, sessions: usize, client: usize, number: u64, seed: u64) -> usize {
        let drawn = || mix(seed ^ mix(client as u64 + 1) ^ mix(number << 1));
        match self {
            Pairs::Ring => (client + 1) % sessions,
            Pairs::Random => other(0..sessions, client, drawn()),
            Pairs::Hub if client == 0 => other(0..sessions, 0, number),
            Pairs::Hub => 0,
            Pairs::Groups => other(group_of(sessions, client), client, drawn()),
        }
    }

    /// The sets of sessions that may talk to each other.
    pub(super) fn groups(self, sessions: usize) -> Vec<Range<usize>> {
        match self {
            Pairs::Ring | Pairs::Random | Pairs::Hub => std::iter::once(0..sessions).collect(),
            Pairs::Groups => {
                let mut groups = Vec::new();
                let mut start = 0;
                while start < sessions {
                    let group = group_of(sessions, start);
                    start = group.end;
                    groups.push(group);
                }
                groups
            }
        }
    }
}

/// The group of a client; the last one takes in what would be too few for one of their own.
fn group_of(sessions: usize, client: usize) -> Range<usize> {
    let last = (sessions / GROUP).max(1) - 1;
    let index = (client / GROUP).min(last);
    let end = if index == last { sessions } else { (index + 1) * GROUP };
    index * GROUP..end
}

/// One of `range` that is not `client`.
fn other(range: Range<usize>, client: usize, drawn: u64) -> usize {
    let n_others = (range.len() - 1).max(1) as u64;
    let picked = range.start + (drawn % n_others) as usize;
    if picked >= client { picked + 1 } else { picked }
}

/// Spreads a number over all bits (Vigna's splitmix64).
pub(super) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Pairs; 4] = [Pairs::Ring, Pairs::Random, Pairs::Hub, Pairs::Groups];

    #[test]
    fn nobody_sends_to_itself_or_out_of_its_group() {
        for (pairs, sessions) in ALL.into_iter().flat_map(|pairs| [(pairs, 2), (pairs, 37)]) {
            let groups = pairs.groups(sessions);
            assert_eq!(groups.iter().map(Range::len).sum::<usize>(), sessions, "{pairs:?}");
            for client in 0..sessions {
                let own = groups.iter().find(|group| group.contains(&client)).unwrap();
                assert!(own.len() > 1, "{pairs:?} leaves {client} alone");
                for number in 1..50 {
                    let target = pairs.target(sessions, client, number, 7);
                    assert_ne!(target, client, "{pairs:?}");
                    assert!(own.contains(&target), "{pairs:?}: {client} to {target}");
                }
            }
        }
    }

    #[test]
    fn a_draw_reaches_everybody_and_the_seed_decides() {
        let drawn = |seed| {
            let targets = (1..=500).map(move |number| Pairs::Random.target(20, 3, number, seed));
            targets.collect::<Vec<usize>>()
        };
        let mut reached = drawn(1);
        assert_eq!(reached, drawn(1));
        assert_ne!(reached, drawn(2));
        reached.sort_unstable();
        reached.dedup();
        assert_eq!(reached.len(), 19);
    }

    #[test]
    fn a_ring_goes_on_and_a_hub_answers_all_in_turn() {
        assert_eq!(Pairs::Ring.target(3, 2, 9, 0), 0);
        let answered: Vec<usize> = (1..=3).map(|n| Pairs::Hub.target(4, 0, n, 0)).collect();
        assert_eq!(answered, [2, 3, 1]);
        assert_eq!(Pairs::Hub.target(4, 3, 1, 0), 0);
    }
}
