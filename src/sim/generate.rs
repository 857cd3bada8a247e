//! A generated trace in the shape of a real one, for whoever has not got the real one at hand.
//!
//! **Invariant**: the same seed gives the same trace. The shape is that of the CollegeMsg trace
//! (Panzarasa, Opsahl and Carley 2009; SNAP): 59,835 messages among 1,899 people over 20,296 pairs,
//! at most 558 to one of them, with heavy tails in what people send, get, and say to each other.

use std::collections::HashSet;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::trace::{Line, Malformed, Trace};

/// Messages in a generated trace.
pub const MESSAGES: usize = 59_835;
/// People in it.
pub const PEOPLE: usize = 1_899;
/// Pairs (from, to) in it.
pub const PAIRS: usize = 20_296;
/// Messages to the person who gets most.
pub const BUSIEST: usize = 558;

/// The first moment, and how many seconds the trace spans.
const START: u64 = 1_082_040_961;
const SPAN: u64 = 16_736_181;

/// The most messages of one pair.
const PAIR_MAX: usize = 98;

/// The trace of this seed.
///
/// # Errors
/// None that can come of a generated trace; the type is that of a trace that is read.
pub fn generate(seed: u64) -> Result<Trace, Malformed> {
    let mut chance = Chance(ChaCha8Rng::seed_from_u64(seed));
    let pairs = draw_pairs(&mut chance);
    let mut messages = draw_messages(&mut chance, &pairs);
    chance.shuffle(&mut messages);
    let mut times: Vec<u64> = messages.iter().map(|_| START + chance.below(SPAN)).collect();
    times.sort_unstable();
    let lines = (1..).zip(messages).zip(times).map(|((number, (from, to)), time)| Line {
        number,
        from: from as u64 + 1,
        to: to as u64 + 1,
        time,
    });
    Trace::new(lines.collect())
}

type Pair = (usize, usize);

/// Distinct pairs in which everybody has a part and few have most.
fn draw_pairs(chance: &mut Chance) -> Vec<Pair> {
    let mut pairs = Vec::with_capacity(PAIRS);
    let mut known = HashSet::with_capacity(PAIRS);
    let mut add = |pair: Pair| {
        let fresh = pair.0 != pair.1 && known.insert(pair);
        if fresh {
            pairs.push(pair);
        }
        fresh
    };
    for person in 0..PEOPLE {
        while !add((chance.person(), person)) {}
    }
    let mut n_pairs = PEOPLE;
    while n_pairs < PAIRS {
        n_pairs += usize::from(add((chance.person(), chance.person())));
    }
    pairs
}

/// One message for each pair, the rest by the pairs' drawn eagerness; the busiest inbox is filled
/// first, and no other may reach it.
fn draw_messages(chance: &mut Chance, pairs: &[Pair]) -> Vec<Pair> {
    let mut messages = pairs.to_vec();
    let mut inboxes = vec![0_usize; PEOPLE];
    for (_, to) in pairs {
        add_one(&mut inboxes, *to);
    }
    let hub = (0..PEOPLE).max_by_key(|person| inboxes.get(*person)).unwrap_or(0);
    let mut wheel = Wheel::new(chance, pairs);
    let mut left = MESSAGES - pairs.len();
    let mut hub_left = BUSIEST.saturating_sub(inboxes.get(hub).copied().unwrap_or(0));
    while left > 0 {
        let for_hub = hub_left > 0;
        let Some((from, to)) = wheel.draw(chance, |to| (to == hub) == for_hub) else { continue };
        if !for_hub && inboxes.get(to).is_some_and(|n| *n + 1 >= BUSIEST) {
            continue;
        }
        add_one(&mut inboxes, to);
        messages.push((from, to));
        hub_left -= usize::from(for_hub);
        left -= 1;
    }
    messages
}

fn add_one(counts: &mut [usize], at: usize) {
    if let Some(count) = counts.get_mut(at) {
        *count += 1;
    }
}

/// Pairs, drawn as often as they are eager, each up to a bound.
struct Wheel<'a> {
    pairs: &'a [Pair],
    drawn: Vec<usize>,
    upto: Vec<f64>,
}

impl<'a> Wheel<'a> {
    fn new(chance: &mut Chance, pairs: &'a [Pair]) -> Self {
        let mut sum = 0.0;
        let eager = pairs.iter().map(|_| {
            sum += (1.0 - chance.unit()).powf(-0.75).min(60.0) - 0.9;
            sum
        });
        let upto = eager.collect();
        Wheel { pairs, drawn: vec![1; pairs.len()], upto }
    }

    /// One pair whose target is wanted, or nothing this time.
    fn draw(&mut self, chance: &mut Chance, wanted: impl Fn(usize) -> bool) -> Option<Pair> {
        let point = chance.unit() * self.upto.last()?;
        let at = self.upto.partition_point(|upto| *upto <= point);
        let pair = *self.pairs.get(at)?;
        let drawn = self.drawn.get_mut(at).filter(|drawn| **drawn < PAIR_MAX)?;
        wanted(pair.1).then(|| {
            *drawn += 1;
            pair
        })
    }
}

struct Chance(ChaCha8Rng);

impl Chance {
    /// From 0 to below 1.
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 to below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A person; those with low numbers far more often.
    fn person(&mut self) -> usize {
        let skewed = self.unit().powf(2.2);
        ((skewed * PEOPLE as f64) as usize).min(PEOPLE - 1)
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::trace::{pairs, people};
    use super::*;

    fn counts(keys: impl Iterator<Item = u64>) -> Vec<usize> {
        let mut counts: HashMap<u64, usize> = HashMap::new();
        for key in keys {
            *counts.entry(key).or_default() += 1;
        }
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        counts
    }

    #[test]
    fn a_generated_trace_has_the_shape_of_the_real_one() {
        for seed in [1, 2, 3] {
            let trace = generate(seed).unwrap();
            let lines = trace.lines();
            let pairs = pairs(lines);
            assert_eq!(lines.len(), MESSAGES, "seed {seed}");
            assert_eq!(people(lines).len(), PEOPLE, "seed {seed}");
            assert_eq!(pairs.len(), PAIRS, "seed {seed}");
            let inboxes = counts(lines.iter().map(|line| line.to));
            assert_eq!(inboxes[0], BUSIEST, "seed {seed}");
            assert!(inboxes[1] < BUSIEST, "seed {seed}");
            let sent = counts(lines.iter().map(|line| line.from));
            assert!((400..2_000).contains(&sent[0]), "seed {seed}: {sent:?}");
            let tenth: usize = sent[..sent.len() / 10].iter().sum();
            assert!(tenth > MESSAGES / 3, "seed {seed}: a tenth sends {tenth}");
            let longest = pairs.values().map(Vec::len).max().unwrap();
            assert!((40..=PAIR_MAX).contains(&longest), "seed {seed}: {longest}");
            let single = pairs.values().filter(|lines| lines.len() == 1).count();
            assert!(single > PAIRS / 4, "seed {seed}: {single} pairs of one message");
            assert!(lines.is_sorted_by_key(|line| line.time), "seed {seed}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_trace() {
        assert_eq!(generate(7).unwrap(), generate(7).unwrap());
        assert_ne!(generate(7).unwrap().hash(), generate(8).unwrap().hash());
    }
}
