//! Where time and fresh ids come from.
//!
//! **Boundary**: nothing else in the life asks the system for the time of day or for chance, so
//! that a simulation can give both.
//!
//! **Invariant**: what waits, waits by the steady clock. The time of day may be set by anybody, by
//! a year ahead or a day back, and is for showing only.

use std::cell::RefCell;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use uuid::{Builder, Uuid};

use crate::protocol::Timestamp;

/// Time and fresh ids.
pub trait Clock: Send + Sync + 'static {
    /// The moment, in milliseconds. Never decides order.
    fn now(&self) -> Timestamp;
    /// Milliseconds since some moment of this process, on a clock that nobody sets: by this it is
    /// decided when something is due. Means nothing to another process and is never stored.
    fn steady(&self) -> Timestamp;
    /// An id that was never given before.
    fn fresh(&self) -> Uuid;
}

/// The system's clock and version 7 UUIDs.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    began: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock { began: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn steady(&self) -> Timestamp {
        Timestamp(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn fresh(&self) -> Uuid {
        SERIES.with_borrow_mut(|series| series.next(self.now()))
    }
}

/// Ids that share one draw of chance: the system is asked once for so many.
const IDS_PER_DRAW: u32 = 4_096;

thread_local! {
    static SERIES: RefCell<Series> = const { RefCell::new(Series { draw: [0; 6], count: 0 }) };
}

/// Version 7 ids of one thread: the moment, 42 bits of chance, and a count.
struct Series {
    draw: [u8; 6],
    count: u32,
}

impl Series {
    fn next(&mut self, now: Timestamp) -> Uuid {
        if self.count.is_multiple_of(IDS_PER_DRAW) {
            let [.., a, b, c, d, e, f] = Uuid::now_v7().into_bytes();
            self.draw = [a, b, c, d, e, f];
        }
        self.count = self.count.wrapping_add(1);
        let ([a, b, c, d, e, f], [g, h, i, j]) = (self.draw, self.count.to_be_bytes());
        let rest = [a, b, c, d, e, f, g, h, i, j];
        Builder::from_unix_timestamp_millis(now.0, &rest).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_id_is_given_twice_by_several_threads() {
        let draw = || {
            std::thread::spawn(|| {
                let clock = SystemClock::default();
                (0..20_000).map(|_| clock.fresh()).collect()
            })
        };
        let drawn: Vec<Vec<Uuid>> =
            [draw(), draw(), draw()].into_iter().map(|thread| thread.join().unwrap()).collect();
        let ids: HashSet<Uuid> = drawn.into_iter().flatten().collect();
        assert_eq!(ids.len(), 60_000);
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
    }
}
