//! What may be asked of a load's figures: `p99<20ms`.
//!
//! **Invariant**: a figure that is not known meets no threshold.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::report::{Latency, Report, Spread};

/// A bound for one figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    text: String,
    figure: Figure,
    relation: Relation,
    /// In microseconds for times.
    bound: f64,
}

/// What became of a threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// As it was written.
    pub threshold: String,
    /// The figure, in microseconds for times; none where it is not known.
    pub value: Option<f64>,
    /// Whether it is within the bound.
    pub met: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    Time(Stage, Share),
    MessagesPerS,
    RatioToLimit,
    Errors,
    Lost,
    Duplicates,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Receipt,
    Accepted,
    Handled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    P50,
    P90,
    P99,
    P999,
    Max,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Below,
    AtMost,
    Above,
    AtLeast,
    Equal,
}

/// Longer spellings first, so that each is found whole.
const RELATIONS: [(&str, Relation); 5] = [
    ("<=", Relation::AtMost),
    (">=", Relation::AtLeast),
    ("==", Relation::Equal),
    ("<", Relation::Below),
    (">", Relation::Above),
];

impl Threshold {
    /// Holds a report's figure to the bound.
    pub(super) fn judge(&self, report: &Report) -> Judged {
        let value = self.figure.of(report);
        let met = value.is_some_and(|value| match self.relation {
            Relation::Below => value < self.bound,
            Relation::AtMost => value <= self.bound,
            Relation::Above => value > self.bound,
            Relation::AtLeast => value >= self.bound,
            Relation::Equal => value == self.bound,
        });
        Judged { threshold: self.text.clone(), value, met }
    }
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = RELATIONS.iter().find_map(|(sign, relation)| {
            text.split_once(sign).map(|(figure, bound)| (figure.trim(), *relation, bound.trim()))
        });
        let Some((figure, relation, bound)) = found else {
            return Err(
                "a threshold is a figure, a relation and a bound, as in p99<20ms".to_owned()
            );
        };
        let figure: Figure = figure.parse()?;
        let bound = figure.bound(bound)?;
        Ok(Threshold { text: text.to_owned(), figure, relation, bound })
    }
}

impl Figure {
    fn of(self, report: &Report) -> Option<f64> {
        match self {
            Figure::Time(stage, share) => {
                let latency = &report.latency_us;
                let Latency { corrected, raw: _ } = match stage {
                    Stage::Receipt => latency.send_receipt,
                    Stage::Accepted => latency.send_accepted,
                    Stage::Handled => latency.send_handled,
                };
                let Spread { p50, p90, p99, p999, max } = corrected;
                let time = match share {
                    Share::P50 => p50,
                    Share::P90 => p90,
                    Share::P99 => p99,
                    Share::P999 => p999,
                    Share::Max => max,
                };
                (max > 0).then_some(time as f64)
            }
            Figure::MessagesPerS => Some(report.messages_per_s),
            Figure::RatioToLimit => report.ratio_to_limit,
            Figure::Errors => Some(report.n_errors() as f64),
            Figure::Lost => Some(report.lost as f64),
            Figure::Duplicates => Some(report.duplicates as f64),
        }
    }

    /// Times have a unit, other figures have none.
    fn bound(self, text: &str) -> Result<f64, String> {
        let Figure::Time(..) = self else {
            let refused = || format!("`{text}` is not a number");
            return number(text).ok_or_else(refused);
        };
        let units = [("us", 1.0), ("µs", 1.0), ("ms", 1e3), ("s", 1e6)];
        let micros = units
            .iter()
            .find_map(|(unit, micros)| Some(number(text.strip_suffix(unit)?.trim_end())? * micros));
        micros.ok_or_else(|| format!("`{text}` is not a time with its unit: us, ms or s"))
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

impl FromStr for Figure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share = |text: &str| {
            Some(match text {
                "p50" => Share::P50,
                "p90" => Share::P90,
                "p99" => Share::P99,
                "p999" => Share::P999,
                "max" => Share::Max,
                _ => return None,
            })
        };
        let time = || {
            let (stage, rest) = text.split_once('.').unwrap_or(("send_accepted", text));
            let stage = match stage {
                "send_receipt" => Stage::Receipt,
                "send_accepted" => Stage::Accepted,
                "send_handled" => Stage::Handled,
                _ => return None,
            };
            Some(Figure::Time(stage, share(rest)?))
        };
        let figure = match text {
            "messages_per_s" => Some(Figure::MessagesPerS),
            "ratio_to_limit" => Some(Figure::RatioToLimit),
            "errors" => Some(Figure::Errors),
            "lost" => Some(Figure::Lost),
            "duplicates" => Some(Figure::Duplicates),
            _ => time(),
        };
        figure.ok_or_else(|| {
            format!(
                "`{text}` is none of p50, p90, p99, p999, max (after send_receipt., send_accepted. \
                 or send_handled.), messages_per_s, ratio_to_limit, errors, lost, duplicates"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::example;
    use super::*;

    fn judged(text: &str) -> Judged {
        text.parse::<Threshold>().unwrap().judge(&example())
    }

    #[test]
    fn each_figure_is_held_to_its_bound() {
        for (text, value, met) in [
            ("p99<20ms", 9_900.0, true),
            ("p99<9900us", 9_900.0, false),
            ("p99 <= 9900us", 9_900.0, true),
            ("send_handled.max>0.01s", 10_000.0, false),
            ("send_receipt.p50>=5ms", 5_000.0, true),
            ("messages_per_s>498", 498.5, true),
            ("ratio_to_limit>0.5", 0.4985, false),
            ("errors==3", 3.0, true),
            ("lost==0", 0.0, true),
            ("duplicates<1", 0.0, true),
        ] {
            let right = Judged { threshold: text.to_owned(), value: Some(value), met };
            assert_eq!(judged(text), right);
        }
    }

    #[test]
    fn what_is_not_known_meets_no_threshold() {
        let report = Report { ratio_to_limit: None, ..example() };
        let threshold: Threshold = "ratio_to_limit>=0".parse().unwrap();
        let judged = threshold.judge(&report);
        assert_eq!((judged.value, judged.met), (None, false));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (text, says) in [
            ("p99", "a figure, a relation and a bound"),
            ("p98<20ms", "`p98` is none of"),
            ("send_sent.p99<20ms", "`send_sent.p99` is none of"),
            ("p99<20", "`20` is not a time with its unit"),
            ("p99<fastms", "`fastms` is not a time"),
            ("errors<-1", "`-1` is not a number"),
            ("lost<1ms", "`1ms` is not a number"),
        ] {
            let fault = text.parse::<Threshold>().unwrap_err();
            assert!(fault.contains(says), "{text}: {fault}");
        }
    }
}
