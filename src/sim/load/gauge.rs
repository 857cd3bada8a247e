//! Collects what a load measures: times, counts and the course of both, second by second.
//!
//! **Boundary**: called from arbiter threads for each message; takes no lock for longer than one
//! recording and never fails.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;

use super::order::Order;
use super::report::{Latencies, Latency, Second, Spread};
use super::series::{Course, Instants};

/// The longest time that is told apart, in microseconds: one hour.
const LONGEST_US: u64 = 3_600_000_000;

/// How far a message has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is in its sender's journal.
    Receipt,
    /// It is in its target's journal.
    Accepted,
    /// The turn that took it has ended.
    Handled,
}

/// What is collected.
pub(super) struct Gauge {
    /// Messages that were meant to be sent before this moment warm up and are not measured.
    ramp_us: u64,
    receipt: Mutex<Times>,
    accepted: Mutex<Times>,
    handled: Mutex<Times>,
    started: Mutex<Course>,
    errors: Mutex<BTreeMap<String, u64>>,
    failed: Mutex<Course>,
    n_handled: AtomicU64,
}

/// The times to one stage.
struct Times {
    /// From the moment a message was meant to be sent.
    corrected: Histogram<u64>,
    /// From the moment it was sent.
    raw: Histogram<u64>,
    course: Course,
    instants: Instants,
    /// Messages that came here after the ramp, whenever they were meant to be sent.
    n_after: u64,
    /// When the last one did.
    last_us: u64,
}

impl Gauge {
    /// None only when the histograms' constant bounds were refused.
    pub(super) fn new(ramp_us: u64) -> Option<Self> {
        let times = || Some(Mutex::new(Times::new()?));
        Some(Gauge {
            ramp_us,
            receipt: times()?,
            accepted: times()?,
            handled: times()?,
            started: Mutex::default(),
            errors: Mutex::default(),
            failed: Mutex::default(),
            n_handled: AtomicU64::new(0),
        })
    }

    /// A message is sent now.
    pub(super) fn started(&self, order: &Order) {
        held(&self.started).count(order.started);
    }

    /// A message has come to `stage` at `now`.
    pub(super) fn reached(&self, stage: Stage, order: &Order, now: u64) {
        held(self.stage(stage)).record(order, now, self.ramp_us);
        if stage == Stage::Handled {
            self.n_handled.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A send was refused, or failed, at `now`.
    pub(super) fn failed(&self, code: &str, now: u64) {
        *held(&self.errors).entry(code.to_owned()).or_default() += 1;
        held(&self.failed).count(now);
    }

    pub(super) fn n_handled(&self) -> u64 {
        self.n_handled.load(Ordering::Relaxed)
    }

    pub(super) fn n_started(&self) -> u64 {
        held(&self.started).total()
    }

    pub(super) fn errors(&self) -> BTreeMap<String, u64> {
        held(&self.errors).clone()
    }

    /// Messages that were handled after the ramp, and from its end to the last of them in seconds.
    pub(super) fn handled_in(&self) -> (u64, f64) {
        let handled = held(&self.handled);
        (handled.n_after, handled.last_us.saturating_sub(self.ramp_us) as f64 / 1e6)
    }

    pub(super) fn latencies(&self) -> Latencies {
        let latency = |stage| held(self.stage(stage)).latency();
        Latencies {
            send_receipt: latency(Stage::Receipt),
            send_accepted: latency(Stage::Accepted),
            send_handled: latency(Stage::Handled),
        }
    }

    /// The corrected times to a stage.
    pub(super) fn corrected(&self, stage: Stage) -> Histogram<u64> {
        held(self.stage(stage)).corrected.clone()
    }

    /// What happened in each second since the beginning.
    pub(super) fn series(&self) -> Vec<Second> {
        let mut accepted = held(&self.accepted);
        let (started, failed) = (held(&self.started), held(&self.failed));
        let (receipt, handled) = (held(&self.receipt), held(&self.handled));
        let n_seconds = [&*started, &*failed, &receipt.course, &accepted.course, &handled.course]
            .map(Course::n_seconds);
        let n_seconds = n_seconds.into_iter().max().unwrap_or(0);
        let second = |at: usize| {
            let spread = accepted.instants.spread(at);
            Second {
                second: at as u64,
                sent: started.at(at),
                queued: receipt.course.at(at),
                accepted: accepted.course.at(at),
                handled: handled.course.at(at),
                errors: failed.at(at),
                send_accepted_p50_us: spread.map(|spread| spread.p50),
                send_accepted_p99_us: spread.map(|spread| spread.p99),
                send_accepted_max_us: spread.map(|spread| spread.max),
            }
        };
        (0..n_seconds).map(second).collect()
    }

    fn stage(&self, stage: Stage) -> &Mutex<Times> {
        match stage {
            Stage::Receipt => &self.receipt,
            Stage::Accepted => &self.accepted,
            Stage::Handled => &self.handled,
        }
    }
}

impl Times {
    fn new() -> Option<Self> {
        Some(Times {
            corrected: histogram()?,
            raw: histogram()?,
            course: Course::default(),
            instants: Instants::new(histogram()?),
            n_after: 0,
            last_us: 0,
        })
    }

    fn record(&mut self, order: &Order, now: u64, ramp_us: u64) {
        let since = |start: u64| now.saturating_sub(start).max(1);
        self.course.count(now);
        self.instants.record(now, since(order.intended));
        if now >= ramp_us {
            self.n_after += 1;
            self.last_us = self.last_us.max(now);
        }
        if order.intended >= ramp_us {
            self.corrected.saturating_record(since(order.intended));
            self.raw.saturating_record(since(order.started));
        }
    }

    fn latency(&self) -> Latency {
        Latency { corrected: Spread::of(&self.corrected), raw: Spread::of(&self.raw) }
    }
}

fn histogram() -> Option<Histogram<u64>> {
    Histogram::new_with_bounds(1, LONGEST_US, 3).ok()
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(intended: u64, started: u64) -> Order {
        Order { client: 0, number: 1, intended, started }
    }

    #[test]
    fn m114_a_late_start_counts_from_the_moment_it_was_meant_for() {
        let gauge = Gauge::new(0).unwrap();
        gauge.started(&order(1_000, 500_000));
        gauge.reached(Stage::Accepted, &order(1_000, 500_000), 501_000);
        let Latency { corrected, raw } = gauge.latencies().send_accepted;
        assert_eq!((corrected.max, raw.max), (500_223, 1_000));
        assert_eq!(gauge.latencies().send_handled.corrected, Spread::default());
    }

    #[test]
    fn what_warms_up_is_counted_and_not_measured() {
        let gauge = Gauge::new(1_000_000).unwrap();
        gauge.reached(Stage::Handled, &order(10, 10), 900_000);
        gauge.reached(Stage::Handled, &order(999_999, 999_999), 1_200_000);
        gauge.reached(Stage::Handled, &order(1_500_000, 1_500_000), 3_000_000);
        assert_eq!(gauge.n_handled(), 3);
        assert_eq!(gauge.handled_in(), (2, 2.0));
        assert_eq!(gauge.latencies().send_handled.corrected.p50, 1_500_159);
        let handled: Vec<u64> = gauge.series().iter().map(|second| second.handled).collect();
        assert_eq!(handled, [1, 1, 0, 1]);
    }

    #[test]
    fn errors_are_counted_by_their_code() {
        let gauge = Gauge::new(0).unwrap();
        gauge.failed("MAILBOX_FULL", 5);
        gauge.failed("MAILBOX_FULL", 2_000_001);
        gauge.failed("NOT_DURABLE", 2_000_002);
        let errors: Vec<(String, u64)> = gauge.errors().into_iter().collect();
        assert_eq!(errors, [("MAILBOX_FULL".to_owned(), 2), ("NOT_DURABLE".to_owned(), 1)]);
        let failed: Vec<u64> = gauge.series().iter().map(|second| second.errors).collect();
        assert_eq!(failed, [1, 0, 2]);
    }
}
