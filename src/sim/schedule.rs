//! Which line of a trace is to be sent next.
//!
//! **Invariant**: of each pair one line at most is on its way, and lines of a pair leave in the
//! trace's order; between pairs the earliest line goes first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::trace::{Line, pairs};

/// The lines that are left, pair by pair.
pub(super) struct Schedule {
    lanes: Vec<Vec<Line>>,
    ready: BinaryHeap<Reverse<(u64, usize)>>,
    n_left: usize,
}

/// A line that may be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Next {
    /// The line.
    pub(super) line: Line,
    /// What [`Schedule::sent`] is to be told.
    pub(super) lane: usize,
}

impl Schedule {
    /// All lines but the first `known` ones of each pair: those have their numbers already.
    pub(super) fn new(lines: &[Line], known: &HashMap<(u64, u64), u64>) -> Self {
        let left = |(pair, lines): ((u64, u64), Vec<Line>)| {
            let skip = known.get(&pair).copied().unwrap_or(0);
            let skip = usize::try_from(skip).unwrap_or(usize::MAX);
            lines.into_iter().skip(skip).rev().collect::<Vec<Line>>()
        };
        let lanes: Vec<Vec<Line>> =
            pairs(lines).into_iter().map(left).filter(|lane| !lane.is_empty()).collect();
        let first =
            |(lane, lines): (usize, &Vec<Line>)| Some(Reverse((lines.last()?.number, lane)));
        let ready = lanes.iter().enumerate().filter_map(first).collect();
        let n_left = lanes.iter().map(Vec::len).sum();
        Schedule { lanes, ready, n_left }
    }

    /// Lines that were not given out yet.
    pub(super) fn n_left(&self) -> usize {
        self.n_left
    }

    /// The next line; nothing while every pair with lines left has one on its way.
    pub(super) fn next(&mut self) -> Option<Next> {
        let Reverse((_, lane)) = self.ready.pop()?;
        let line = self.lanes.get_mut(lane)?.pop()?;
        self.n_left -= 1;
        Some(Next { line, lane })
    }

    /// The pair's line has its receipt: its next one may go.
    pub(super) fn sent(&mut self, lane: usize) {
        if let Some(line) = self.lanes.get(lane).and_then(|lane| lane.last()) {
            self.ready.push(Reverse((line.number, lane)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trace::Trace;
    use super::*;

    fn numbers(schedule: &mut Schedule) -> Vec<u64> {
        let mut numbers = Vec::new();
        while let Some(next) = schedule.next() {
            numbers.push(next.line.number);
            schedule.sent(next.lane);
        }
        numbers
    }

    #[test]
    fn lines_leave_in_order_and_known_ones_are_left_out() {
        let trace = Trace::parse(b"1 2 0\n2 1 0\n1 2 0\n1 3 0\n1 2 0\n").unwrap();
        let mut all = Schedule::new(trace.lines(), &HashMap::new());
        assert_eq!(all.n_left(), 5);
        assert_eq!(numbers(&mut all), [1, 2, 3, 4, 5]);
        assert_eq!(all.n_left(), 0);
        let known = HashMap::from([((1, 2), 2), ((2, 1), 1), ((1, 3), 7)]);
        assert_eq!(numbers(&mut Schedule::new(trace.lines(), &known)), [5]);
    }

    #[test]
    fn a_pair_has_one_line_on_its_way() {
        let trace = Trace::parse(b"1 2 0\n1 2 0\n3 2 0\n").unwrap();
        let mut schedule = Schedule::new(trace.lines(), &HashMap::new());
        let first = schedule.next().unwrap();
        assert_eq!(schedule.next().unwrap().line.number, 3);
        assert_eq!(schedule.next(), None);
        schedule.sent(first.lane);
        assert_eq!(schedule.next().unwrap().line.number, 2);
    }
}
