//! What is said of a load at its end.
//!
//! **Invariant**: the names in the JSON are permanent; `docs/cli.md` says what each means, and what
//! is not known is `null`, never left out.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::count::{Count, CountedFrom, Totals};
use super::machine::{Machine, Usage};
use super::pairs::Pairs;
use super::plan::{Plan, Span};
use super::threshold::{Judged, Threshold};
use crate::config::Durability;
use crate::sim::limit::Limit;

/// A load in numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of the program.
    pub version: String,
    /// What it ran on.
    pub machine: Machine,
    /// The seed.
    pub seed: u64,
    /// What was asked for.
    pub load: Asked,
    /// Messages that were sent, those that were refused among them.
    pub sent: u64,
    /// Messages in the senders' journals.
    pub queued: u64,
    /// Messages in their targets' journals.
    pub accepted: u64,
    /// Messages whose turn has ended.
    pub handled: u64,
    /// Seconds from the end of the ramp to the last handling.
    pub elapsed_s: f64,
    /// Messages handled per second of `elapsed_s`, that is, after the ramp.
    pub messages_per_s: f64,
    /// What the disk alone would allow.
    pub limit_messages_per_s: Option<f64>,
    /// The one divided by the other.
    pub ratio_to_limit: Option<f64>,
    /// Messages with a receipt that no target has accepted.
    pub lost: u64,
    /// Acceptances of a message after its first.
    pub duplicates: u64,
    /// What the two were counted from.
    pub counted_from: CountedFrom,
    /// Sends without a receipt, by the code of their error.
    pub errors: BTreeMap<String, u64>,
    /// Times, in microseconds.
    pub latency_us: Latencies,
    /// Bytes of journal per handled message.
    pub bytes_per_message: Option<f64>,
    /// Processor time per handled message, in microseconds: the bus's, and the clients' where they
    /// run in its process.
    pub cpu_us_per_message: Option<f64>,
    /// Memory that the bus's process holds at the end, in bytes.
    pub rss_bytes: Option<u64>,
    /// When the bus's process was killed.
    pub restarts: Vec<Restart>,
    /// What was asked of the figures.
    pub thresholds: Vec<Judged>,
    /// What happened in each second.
    pub series: Vec<Second>,
    /// How the times are spread, in full.
    #[serde(skip)]
    pub(super) curves: Option<Curves>,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Sessions.
    pub sessions: usize,
    /// Who sends to whom.
    pub pairs: Pairs,
    /// Messages a second; 0 in a closed loop.
    pub rate: u64,
    /// For how long, after the ramp.
    pub duration_s: Option<f64>,
    /// So many messages.
    pub messages: Option<u64>,
    /// Bytes of each body.
    pub size: usize,
    /// The ramp.
    pub ramp_s: f64,
    /// What a receipt promises.
    pub durability: Durability,
    /// When the bus's process was to be killed.
    pub restart_at_s: Option<f64>,
}

/// Times to each stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Latencies {
    /// Until the receipt: the message is in its sender's journal.
    pub send_receipt: Latency,
    /// Until the acceptance: it is in its target's journal.
    pub send_accepted: Latency,
    /// Until the end of the turn that handled it.
    pub send_handled: Latency,
}

/// Times to one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Latency {
    /// From the moment a message was meant to be sent.
    pub corrected: Spread,
    /// From the moment it was sent.
    pub raw: Spread,
}

/// How times are spread, in microseconds; zeros where nothing was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spread {
    /// The median.
    pub p50: u64,
    /// What 90 of 100 stay under.
    pub p90: u64,
    /// What 99 of 100 stay under.
    pub p99: u64,
    /// What 999 of 1,000 stay under.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

/// A kill of the bus's process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Restart {
    /// When, in seconds after the load's beginning.
    pub at_s: f64,
    /// How long until sends were taken again.
    pub gap_s: f64,
}

/// What happened in one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Second {
    /// Which, from 0.
    pub second: u64,
    /// Messages sent.
    pub sent: u64,
    /// Receipts.
    pub queued: u64,
    /// Acceptances.
    pub accepted: u64,
    /// Handlings.
    pub handled: u64,
    /// Sends without a receipt.
    pub errors: u64,
    /// Corrected times to the acceptances of this second: the median.
    pub send_accepted_p50_us: Option<u64>,
    /// What 99 of 100 stay under.
    pub send_accepted_p99_us: Option<u64>,
    /// The longest.
    pub send_accepted_max_us: Option<u64>,
}

/// The corrected times to each stage, in full.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Curves {
    pub(super) receipt: Histogram<u64>,
    pub(super) accepted: Histogram<u64>,
    pub(super) handled: Histogram<u64>,
}

/// What a report is made of.
pub(super) struct Figures {
    pub(super) machine: Machine,
    pub(super) sent: u64,
    pub(super) totals: Totals,
    /// Messages handled after the ramp, and in how many seconds.
    pub(super) measured: (u64, f64),
    pub(super) limit: Option<Limit>,
    pub(super) counted: Count,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) latencies: Latencies,
    pub(super) series: Vec<Second>,
    pub(super) usage: Option<Usage>,
    pub(super) restarts: Vec<Restart>,
    pub(super) curves: Curves,
}

impl Report {
    pub(super) fn new(plan: &Plan, figures: Figures) -> Self {
        let Figures { machine, sent, totals, measured, limit, counted, errors, .. } = figures;
        let (n_measured, elapsed_s) = measured;
        let messages_per_s = if elapsed_s > 0.0 { n_measured as f64 / elapsed_s } else { 0.0 };
        let per_message = |amount: f64| {
            (totals.handled > 0).then(|| rounded(amount / totals.handled as f64, 100.0))
        };
        let limit = limit.map(|limit| limit.messages_per_s).filter(|limit| *limit > 0.0);
        Report {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine,
            seed: plan.seed,
            load: Asked::new(plan),
            sent,
            queued: totals.queued,
            accepted: totals.accepted,
            handled: totals.handled,
            elapsed_s: rounded(elapsed_s, 1_000.0),
            messages_per_s: rounded(messages_per_s, 10.0),
            limit_messages_per_s: limit,
            ratio_to_limit: limit.map(|limit| rounded(messages_per_s / limit, 10_000.0)),
            lost: counted.lost,
            duplicates: counted.duplicates,
            counted_from: counted.from,
            errors,
            latency_us: figures.latencies,
            bytes_per_message: counted.log_bytes.and_then(|bytes| per_message(bytes as f64)),
            cpu_us_per_message: figures.usage.and_then(|usage| per_message(usage.cpu_us as f64)),
            rss_bytes: figures.usage.map(|usage| usage.rss_bytes),
            restarts: figures.restarts,
            thresholds: Vec::new(),
            series: figures.series,
            curves: Some(figures.curves),
        }
    }

    /// Holds the figures to what was asked of them. Whether all thresholds are met.
    pub fn judge(&mut self, thresholds: &[Threshold]) -> bool {
        self.thresholds = thresholds.iter().map(|threshold| threshold.judge(self)).collect();
        self.thresholds.iter().all(|judged| judged.met)
    }

    /// One line of JSON.
    ///
    /// # Errors
    /// None that can come of a report; the type is the serialiser's.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Reads a report's JSON, to compare with.
    ///
    /// # Errors
    /// When it is not a report.
    pub fn read(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// Tables for people.
    pub fn text(&self, baseline: Option<&Report>) -> String {
        super::table::text(self, baseline)
    }

    /// What happened in each second, as comma-separated values with a line of names.
    pub fn csv(&self) -> String {
        super::csv::csv(&self.series)
    }

    /// How the corrected times from send to acceptance are spread, in the text form that plotters
    /// of HdrHistogram read, in milliseconds.
    pub fn hgrm(&self) -> String {
        self.curves.as_ref().map(|curves| super::hgrm::hgrm(&curves.accepted)).unwrap_or_default()
    }

    /// A page that needs no network.
    pub fn html(&self, baseline: Option<&Report>) -> String {
        super::page::page(self, baseline)
    }

    /// Errors of all codes.
    pub fn n_errors(&self) -> u64 {
        self.errors.values().sum()
    }
}

impl Asked {
    fn new(plan: &Plan) -> Self {
        Asked {
            sessions: plan.sessions,
            pairs: plan.pairs,
            rate: plan.rate,
            duration_s: match plan.span {
                Span::Time(time) => Some(time.as_secs_f64()),
                Span::Messages(_) => None,
            },
            messages: match plan.span {
                Span::Time(_) => None,
                Span::Messages(messages) => Some(messages),
            },
            size: plan.size,
            ramp_s: plan.ramp.as_secs_f64(),
            durability: plan.durability,
            restart_at_s: plan.restart_at.map(|at| at.as_secs_f64()),
        }
    }

    /// In one line.
    pub(super) fn text(&self) -> String {
        let Asked { sessions, pairs, size, .. } = self;
        let pairs = format!("{pairs:?}").to_lowercase();
        let rate = match self.rate {
            0 => "closed loop".to_owned(),
            rate => format!("open loop, {rate} messages/s"),
        };
        let span = match (self.duration_s, self.messages) {
            (Some(seconds), _) => format!("{seconds} s"),
            (None, messages) => format!("{} messages", messages.unwrap_or(0)),
        };
        let durability = format!("{:?}", self.durability).to_lowercase();
        let mut text = format!(
            "{sessions} sessions, {pairs}, {rate}, {span}, bodies of {size} bytes, {durability}"
        );
        if self.ramp_s > 0.0 {
            text.push_str(&format!(", ramp {} s", self.ramp_s));
        }
        if let Some(at) = self.restart_at_s {
            text.push_str(&format!(", killed after {at} s"));
        }
        text
    }
}

impl Latencies {
    /// Each with its name.
    pub(super) fn named(&self) -> [(&'static str, &Latency); 3] {
        [
            ("send to receipt", &self.send_receipt),
            ("send to accepted", &self.send_accepted),
            ("send to handled", &self.send_handled),
        ]
    }
}

impl Spread {
    pub(super) fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Spread::default();
        }
        let at = |quantile| histogram.value_at_quantile(quantile).min(histogram.max());
        let max = histogram.max();
        Spread { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max }
    }

    /// Each with its name.
    pub(super) fn named(&self) -> [(&'static str, u64); 5] {
        let Spread { p50, p90, p99, p999, max } = *self;
        [("p50", p50), ("p90", p90), ("p99", p99), ("p999", p999), ("max", max)]
    }
}

/// A number with so many parts of one.
fn rounded(number: f64, parts: f64) -> f64 {
    (number * parts).round() / parts
}

#[cfg(test)]
pub(super) fn example() -> Report {
    let mut handled = Histogram::new_with_bounds(1, 3_600_000_000, 3).unwrap();
    (1..=1_000).for_each(|time| handled.record(time * 10).unwrap());
    let spread = Spread { p50: 5_000, p90: 9_000, p99: 9_900, p999: 9_990, max: 10_000 };
    let latency = Latency { corrected: spread, raw: spread };
    let second = Second { second: 0, sent: 600, queued: 600, accepted: 599, ..Second::default() };
    let times = [Some(5_000), Some(9_900), Some(10_000)];
    let later = Second {
        second: 1,
        sent: 400,
        handled: 900,
        errors: 3,
        send_accepted_p50_us: times[0],
        send_accepted_p99_us: times[1],
        send_accepted_max_us: times[2],
        ..second
    };
    Report {
        version: "0.1.0".to_owned(),
        machine: Machine {
            system: "linux 6.1".to_owned(),
            architecture: "x86_64".to_owned(),
            processor: Some("a <fast> one".to_owned()),
            cores: 2,
            memory_bytes: Some(8 << 30),
            file_system: Some("ext4".to_owned()),
            build: "release".to_owned(),
        },
        seed: 1,
        load: Asked::new(&super::plan::small()),
        sent: 1_000,
        queued: 997,
        accepted: 997,
        handled: 997,
        elapsed_s: 2.0,
        messages_per_s: 498.5,
        limit_messages_per_s: Some(1_000.0),
        ratio_to_limit: Some(0.4985),
        lost: 0,
        duplicates: 0,
        counted_from: CountedFrom::Events,
        errors: BTreeMap::from([("MAILBOX_FULL".to_owned(), 3)]),
        latency_us: Latencies {
            send_receipt: latency,
            send_accepted: latency,
            send_handled: latency,
        },
        bytes_per_message: Some(1_200.5),
        cpu_us_per_message: Some(20.25),
        rss_bytes: Some(64 << 20),
        restarts: vec![Restart { at_s: 1.5, gap_s: 0.25 }],
        thresholds: Vec::new(),
        series: vec![second, later],
        curves: Some(Curves { receipt: handled.clone(), accepted: handled.clone(), handled }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m114_the_json_names_stay_and_read_back() {
        let golden = include_str!("../../../tests/golden/load-report.json");
        let report = example();
        assert_eq!(report.json().unwrap(), golden.trim_end());
        let read = Report::read(golden.as_bytes()).unwrap();
        assert_eq!(Report { curves: None, ..report }, read);
    }

    #[test]
    fn what_is_no_report_does_not_read() {
        assert!(Report::read(b"{}").is_err());
        assert!(Report::read(b"not json").is_err());
    }
}
