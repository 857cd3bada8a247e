//! What happened second by second.
//!
//! **Invariant**: a fact belongs to the second it was seen in; one that comes late, because two
//! threads saw theirs at once, counts for the newest second there is.

use hdrhistogram::Histogram;

use super::report::Spread;

const SECOND_US: u64 = 1_000_000;

/// How often something happened in each second.
#[derive(Debug, Default)]
pub(super) struct Course(Vec<u64>);

impl Course {
    /// It happened once more.
    pub(super) fn count(&mut self, now: u64) {
        let at = second(now);
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        if let Some(count) = self.0.get_mut(at) {
            *count += 1;
        }
    }

    pub(super) fn at(&self, second: usize) -> u64 {
        self.0.get(second).copied().unwrap_or(0)
    }

    pub(super) fn n_seconds(&self) -> usize {
        self.0.len()
    }

    pub(super) fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// How times were spread in each second.
pub(super) struct Instants {
    done: Vec<Option<Spread>>,
    present: Histogram<u64>,
}

impl Instants {
    pub(super) fn new(empty: Histogram<u64>) -> Self {
        Instants { done: Vec::new(), present: empty }
    }

    pub(super) fn record(&mut self, now: u64, time: u64) {
        while self.done.len() < second(now) {
            self.end_second();
        }
        self.present.saturating_record(time);
    }

    /// The times of a second; none where nothing was seen.
    pub(super) fn spread(&mut self, second: usize) -> Option<Spread> {
        if self.done.len() == second {
            self.end_second();
        }
        self.done.get(second).copied().flatten()
    }

    fn end_second(&mut self) {
        let seen = !self.present.is_empty();
        self.done.push(seen.then(|| Spread::of(&self.present)));
        self.present.reset();
    }
}

fn second(now: u64) -> usize {
    usize::try_from(now / SECOND_US).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_own_times() {
        let mut instants = Instants::new(Histogram::new_with_bounds(1, 1 << 30, 3).unwrap());
        instants.record(10, 5);
        instants.record(2_100_000, 7);
        instants.record(2_200_000, 9);
        instants.record(1_999_999, 8);
        let max = [0, 1, 2, 3].map(|at| instants.spread(at).map(|spread| spread.max));
        assert_eq!(max, [Some(5), None, Some(9), None]);
    }

    #[test]
    fn a_course_counts_by_second() {
        let mut course = Course::default();
        for now in [0, 999_999, 1_000_000, 3_000_000] {
            course.count(now);
        }
        assert_eq!([0, 1, 2, 3, 4].map(|at| course.at(at)), [2, 1, 0, 1, 0]);
        assert_eq!((course.n_seconds(), course.total()), (4, 4));
    }
}
