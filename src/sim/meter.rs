//! Measures what the bus takes from a send to its acceptance and to its handling.
//!
//! **Boundary**: called from arbiter threads for each message; takes no lock for longer than one
//! recording and never fails.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;

use super::summary::{Latency, Spread};
use crate::bus::Observer;
use crate::protocol::Message;

/// The longest time that is told apart, in microseconds: one hour.
const LONGEST_US: u64 = 3_600_000_000;

/// Collects the times of one run.
pub struct Meter {
    clock: Clock,
    accepted: Mutex<Times>,
    handled: Mutex<Times>,
}

/// From when a message's times count.
enum Clock {
    /// From the call of send, by the line that the body names.
    Lines {
        since: Instant,
        /// Microseconds after `since`, plus one; 0 while the line is not sent by this process.
        sent: Vec<AtomicU64>,
    },
    /// From the moment in the message's envelope, to the millisecond, for messages sent after
    /// the meter was made.
    Envelope { since_ms: u64 },
}

impl Meter {
    /// For bodies made by [`line_body`], with numbers up to `line_max`.
    pub fn of_lines(line_max: u64) -> Self {
        let sent = (0..=line_max).map(|_| AtomicU64::new(0)).collect();
        Meter::new(Clock::Lines { since: Instant::now(), sent })
    }

    /// For any message, to the millisecond.
    pub fn of_envelopes() -> Self {
        Meter::new(Clock::Envelope { since_ms: now_ms() })
    }

    fn new(clock: Clock) -> Self {
        Meter { clock, accepted: Mutex::new(Times::new()), handled: Mutex::new(Times::new()) }
    }

    /// This line is about to be sent.
    pub fn sending(&self, line: u64) {
        if let Clock::Lines { since, sent } = &self.clock
            && let Some(sent) = usize::try_from(line).ok().and_then(|line| sent.get(line))
        {
            sent.store(micros(since.elapsed()) + 1, Ordering::Relaxed);
        }
    }

    /// What was measured so far.
    pub fn latency(&self) -> Latency {
        let spread =
            |times: &Mutex<Times>| times.lock().unwrap_or_else(PoisonError::into_inner).spread();
        Latency { send_accepted: spread(&self.accepted), send_handled: spread(&self.handled) }
    }

    fn record(&self, times: &Mutex<Times>, message: &Message) {
        if let Some(time) = self.since_send(message) {
            times.lock().unwrap_or_else(PoisonError::into_inner).record(time);
        }
    }

    fn since_send(&self, message: &Message) -> Option<u64> {
        match &self.clock {
            Clock::Lines { since, sent } => {
                let line = usize::try_from(line_of(message.body.as_str())?).ok()?;
                let sent = sent.get(line)?.load(Ordering::Relaxed).checked_sub(1)?;
                Some(micros(since.elapsed()).saturating_sub(sent))
            }
            Clock::Envelope { since_ms } => {
                let sent = message.sent.0;
                (sent >= *since_ms).then(|| now_ms().saturating_sub(sent) * 1_000)
            }
        }
    }
}

impl Observer for Meter {
    fn accepted(&self, message: &Message) {
        self.record(&self.accepted, message);
    }

    fn handled(&self, message: &Message) {
        self.record(&self.handled, message);
    }
}

/// The body of a trace's line.
pub fn line_body(line: u64) -> String {
    format!("line {line}")
}

/// The line that a body was made for.
pub fn line_of(body: &str) -> Option<u64> {
    body.strip_prefix("line ")?.parse().ok()
}

/// Without a histogram only when its constant bounds were refused.
struct Times(Option<Histogram<u64>>);

impl Times {
    fn new() -> Self {
        Times(Histogram::new_with_bounds(1, LONGEST_US, 3).ok())
    }

    fn record(&mut self, micros: u64) {
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(micros.max(1));
        }
    }

    fn spread(&self) -> Spread {
        self.0.as_ref().filter(|histogram| !histogram.is_empty()).map_or_else(
            Spread::default,
            |histogram| Spread {
                p50: histogram.value_at_quantile(0.5),
                p99: histogram.value_at_quantile(0.99),
                max: histogram.max(),
            },
        )
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_names_its_line() {
        assert_eq!(line_of(&line_body(42)), Some(42));
        assert_eq!(line_of("line"), None);
        assert_eq!(line_of("42"), None);
    }

    #[test]
    fn times_are_spread_and_none_are_zeros() {
        let mut times = Times::new();
        assert_eq!(times.spread(), Spread::default());
        (1..=100).for_each(|time| times.record(time));
        assert_eq!(times.spread(), Spread { p50: 50, p99: 99, max: 100 });
    }
}
