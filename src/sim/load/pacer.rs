//! When which client is to send.
//!
//! **Invariant**: the schedule is fixed before the load begins; nothing that happens during it
//! moves a moment.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::plan::{Plan, Span};

/// A schedule: start number i, from 0, has its moment and its client. In an open loop these are
/// all starts there are; in a closed one they are each client's first.
pub(super) struct Pacer {
    rate: f64,
    ramp: f64,
    count: u64,
    /// The clients in the order in which they take turns.
    clients: Vec<u32>,
}

impl Pacer {
    pub(super) fn new(plan: &Plan) -> Self {
        let ramp = plan.ramp.as_secs_f64();
        let sessions = plan.sessions as u64;
        let rate = plan.rate as f64;
        let count = match (plan.span, plan.is_open()) {
            (Span::Messages(messages), true) => messages,
            (Span::Messages(messages), false) => messages.min(sessions),
            (Span::Time(time), true) => starts_in(rate, ramp, time),
            (Span::Time(_), false) => sessions,
        };
        Pacer { rate, ramp, count, clients: shuffled(sessions, plan.seed) }
    }

    /// How many starts there are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// When start `index` is due, in microseconds after the beginning.
    ///
    /// While the rate is raised evenly, half of it times the time is what has been sent; a closed
    /// loop's clients join in evenly.
    pub(super) fn due(&self, index: u64) -> u64 {
        let index = index as f64;
        let in_ramp = self.rate * self.ramp / 2.0;
        let seconds = if self.rate == 0.0 {
            self.ramp * index / self.clients.len().max(1) as f64
        } else if index < in_ramp {
            (2.0 * self.ramp * index / self.rate).sqrt()
        } else {
            self.ramp + (index - in_ramp) / self.rate
        };
        (seconds * 1e6) as u64
    }

    /// Who makes start `index`.
    pub(super) fn client(&self, index: u64) -> u32 {
        let at = (index % self.clients.len().max(1) as u64) as usize;
        self.clients.get(at).copied().unwrap_or(0)
    }
}

/// How many starts a ramp and the time after it hold.
fn starts_in(rate: f64, ramp: f64, time: Duration) -> u64 {
    (rate * (ramp / 2.0 + time.as_secs_f64())).ceil() as u64
}

fn shuffled(sessions: u64, seed: u64) -> Vec<u32> {
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    let mut clients: Vec<u32> = (0..u32::try_from(sessions).unwrap_or(u32::MAX)).collect();
    for at in (1..clients.len()).rev() {
        clients.swap(at, (chance.next_u64() % (at as u64 + 1)) as usize);
    }
    clients
}

#[cfg(test)]
mod tests {
    use super::super::plan::small;
    use super::*;

    #[test]
    fn m114_starts_are_even_and_each_client_has_its_turn() {
        let pacer = Pacer::new(&small());
        assert_eq!(pacer.count(), 100);
        let due: Vec<u64> = (0..4).map(|index| pacer.due(index)).collect();
        assert_eq!(due, [0, 1_000, 2_000, 3_000]);
        for round in 0..25 {
            let mut clients: Vec<u32> = (0..4).map(|turn| pacer.client(round * 4 + turn)).collect();
            clients.sort_unstable();
            assert_eq!(clients, [0, 1, 2, 3]);
        }
    }

    #[test]
    fn a_ramp_raises_the_rate_and_then_holds_it() {
        let (ramp, time) = (Duration::from_secs(2), Duration::from_secs(1));
        let pacer = Pacer::new(&Plan { ramp, span: Span::Time(time), ..small() });
        assert_eq!(pacer.count(), 2_000);
        assert_eq!(
            [0, 250, 1_000, 1_500].map(|i| pacer.due(i)),
            [0, 1_000_000, 2_000_000, 2_500_000]
        );
        assert!((1..2_000).all(|index| pacer.due(index) > pacer.due(index - 1)));
        assert!(pacer.due(1_999) < 3_000_000);
    }

    #[test]
    fn in_a_closed_loop_clients_join_in_one_by_one() {
        let plan = Plan { rate: 0, ramp: Duration::from_secs(1), ..small() };
        let pacer = Pacer::new(&plan);
        assert_eq!(pacer.count(), 4);
        assert_eq!([0, 1, 3].map(|index| pacer.due(index)), [0, 250_000, 750_000]);
        let few = Pacer::new(&Plan { span: Span::Messages(3), ..plan });
        assert_eq!(few.count(), 3);
    }

    #[test]
    fn the_seed_decides_the_order_of_the_clients() {
        let order = |seed| shuffled(100, seed);
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }
}
