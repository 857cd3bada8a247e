//! What is said of a run at its end.
//!
//! **Invariant**: the names in the JSON are permanent; `docs/cli.md` says what each means.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// The end of a run in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Sessions there are.
    pub sessions: u64,
    /// Messages in the senders' journals.
    pub queued: u64,
    /// Messages that their targets have accepted.
    pub accepted: u64,
    /// Accepted messages that are handled.
    pub handled: u64,
    /// Accepted messages that are dead.
    pub dead: u64,
    /// Messages that their targets have refused.
    pub refused: u64,
    /// Dispatches that came twice and were recognised, in this process.
    pub duplicates: u64,
    /// Seconds from the first send, or from the opening of a directory with work left, to quiet.
    pub elapsed_s: f64,
    /// Messages handled by this process per second of `elapsed_s`.
    pub messages_per_s: f64,
    /// Latencies of what this process has sent, in microseconds.
    pub latency_us: Latency,
    /// Bytes of journal in use.
    pub journal_bytes: u64,
    /// What opening the data directory did.
    pub recovery: Recovery,
}

/// Times from the call of send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Latency {
    /// To the durable acceptance.
    pub send_accepted: Spread,
    /// To the durable end of the turn that handled it.
    pub send_handled: Spread,
}

/// How times are spread, in microseconds; zeros when nothing was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Spread {
    /// The median.
    pub p50: u64,
    /// What 99 of 100 stay under.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

/// What opening the data directory did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Recovery {
    /// Groups read after the saved heads.
    pub groups: u64,
    /// Frames in them.
    pub frames: u64,
    /// Bytes read from segments.
    pub bytes_read: u64,
    /// Bytes of an unproved tail that were copied aside and cut.
    pub cut_bytes: u64,
    /// Sessions that cannot be replayed because of damage.
    pub quarantined: u64,
    /// Sessions that had work left.
    pub resumed: u64,
}

impl Summary {
    /// One line of JSON.
    ///
    /// # Errors
    /// None that can come of a summary; the type is the serialiser's.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// A table for people.
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let Latency { send_accepted, send_handled } = &self.latency_us;
        let rows = [
            ("sessions", grouped(self.sessions)),
            ("queued", grouped(self.queued)),
            ("accepted", grouped(self.accepted)),
            ("handled", grouped(self.handled)),
            ("dead", grouped(self.dead)),
            ("refused", grouped(self.refused)),
            ("duplicates recognised", grouped(self.duplicates)),
            ("elapsed", elapsed(self.elapsed_s)),
            ("messages per second", grouped(self.messages_per_s.round() as u64)),
            ("send to accepted", send_accepted.text()),
            ("send to handled", send_handled.text()),
            ("journal", format!("{} bytes", grouped(self.journal_bytes))),
            ("recovery", self.recovery.text()),
        ];
        for (name, value) in rows {
            table.add_row([name.to_owned(), value]);
        }
        if let Some(values) = table.column_mut(1) {
            values.set_cell_alignment(CellAlignment::Left);
        }
        table.trim_fmt()
    }
}

impl Spread {
    fn text(&self) -> String {
        if *self == Spread::default() {
            return "not measured".to_owned();
        }
        let Spread { p50, p99, max } = self;
        format!("p50 {} µs, p99 {} µs, max {} µs", grouped(*p50), grouped(*p99), grouped(*max))
    }
}

impl Recovery {
    fn text(&self) -> String {
        let Recovery { groups, frames, bytes_read, cut_bytes, quarantined, resumed } = self;
        let mut text = format!(
            "{} groups, {} frames, {} bytes read, {} sessions resumed",
            grouped(*groups),
            grouped(*frames),
            grouped(*bytes_read),
            grouped(*resumed),
        );
        if *cut_bytes > 0 {
            text.push_str(&format!(", {} bytes of torn tail cut", grouped(*cut_bytes)));
        }
        if *quarantined > 0 {
            text.push_str(&format!(", {} sessions quarantined", grouped(*quarantined)));
        }
        text
    }
}

/// Seconds, or milliseconds where it was not one.
fn elapsed(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.3} ms", seconds * 1e3) } else { format!("{seconds:.3} s") }
}

/// A number with its thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        Summary {
            sessions: 1_899,
            queued: 59_835,
            accepted: 59_835,
            handled: 59_834,
            dead: 1,
            refused: 0,
            duplicates: 7,
            elapsed_s: 2.5,
            messages_per_s: 23_934.0,
            latency_us: Latency {
                send_accepted: Spread { p50: 4_100, p99: 9_000, max: 12_345 },
                send_handled: Spread::default(),
            },
            journal_bytes: 61_000_000,
            recovery: Recovery { groups: 3, frames: 12, cut_bytes: 4_096, ..Recovery::default() },
        }
    }

    #[test]
    fn the_json_names_stay() {
        let golden = include_str!("../../tests/golden/summary.json");
        assert_eq!(summary().json().unwrap(), golden.trim_end());
    }

    #[test]
    fn the_table_names_everything() {
        let table = summary().table();
        for text in ["59,835", "2.500 s", "p50 4,100 µs", "not measured", "4,096 bytes of torn"] {
            assert!(table.contains(text), "{text} is missing in\n{table}");
        }
        assert!(!table.contains("quarantined"), "{table}");
    }

    #[test]
    fn a_short_time_is_told_in_milliseconds() {
        assert_eq!([0.000_222, 0.5, 2.5].map(elapsed), ["0.222 ms", "500.000 ms", "2.500 s"]);
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
