//! The flags of `callboard load`.
//!
//! **Boundary**: what a single flag says wrongly is refused here; what flags say wrongly together
//! is the plan's to refuse.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use callboard::sim::load::{Pairs, Plan, Span, Threshold};
use clap::{Args, ValueEnum};

use super::args::StoreArgs;

/// How long a load takes, unless it is told.
const DURATION: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Sessions, each of them sender and target
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) sessions: usize,
    /// Who sends to whom: each to the next, to anybody, all to the first and back, or within
    /// groups of ten
    #[arg(long, value_enum, default_value_t = PairsArg::Ring)]
    pub(crate) pairs: PairsArg,
    /// Messages a second over all sessions, whatever becomes of them; 0: each session sends when
    /// its last message is handled
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) rate: u64,
    /// How long, after the ramp: a number with its unit, ms, s, m or h [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "messages")]
    pub(crate) duration: Option<Duration>,
    /// So many messages, instead of a duration
    #[arg(long, value_name = "N")]
    pub(crate) messages: Option<u64>,
    /// Bytes of each body
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    pub(crate) size: usize,
    /// How long the rate is raised, or sessions join in, before anything is measured
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pub(crate) ramp: Duration,
    /// Decides whose turn it is and who is drawn as a target
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Kill the bus's process at that time, as by kill -9, and start it again
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) restart_at: Option<Duration>,
    /// Exit with 99 unless a figure is within its bound, as in p99<20ms; may be given repeatedly
    #[arg(long, value_name = "BOUND")]
    pub(crate) threshold: Vec<Threshold>,
    /// Write a report, its form by the name's end: json, csv, html or hgrm; may be given repeatedly
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Vec<ReportFile>,
    /// Compare with an older report in JSON
    #[arg(long, value_name = "OLD.json")]
    pub(crate) baseline: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print the report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PairsArg {
    Ring,
    Random,
    Hub,
    Groups,
}

/// A file that a report is written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReportFile {
    pub(crate) path: PathBuf,
    pub(crate) format: Format,
}

/// The forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Csv,
    Html,
    Hgrm,
}

impl LoadArgs {
    pub(crate) fn plan(&self) -> Plan {
        Plan {
            sessions: self.sessions,
            pairs: match self.pairs {
                PairsArg::Ring => Pairs::Ring,
                PairsArg::Random => Pairs::Random,
                PairsArg::Hub => Pairs::Hub,
                PairsArg::Groups => Pairs::Groups,
            },
            rate: self.rate,
            span: match self.messages {
                Some(messages) => Span::Messages(messages),
                None => Span::Time(self.duration.unwrap_or(DURATION)),
            },
            size: self.size,
            ramp: self.ramp,
            seed: self.seed,
            restart_at: self.restart_at,
            durability: self.store.options().durability,
        }
    }
}

impl FromStr for ReportFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = PathBuf::from(text);
        let format = match path.extension().and_then(|end| end.to_str()) {
            Some("json") => Format::Json,
            Some("csv") => Format::Csv,
            Some("html") => Format::Html,
            Some("hgrm") => Format::Hgrm,
            Some(_) | None => {
                return Err("a report's name ends in .json, .csv, .html or .hgrm".to_owned());
            }
        };
        Ok(ReportFile { path, format })
    }
}

/// A time with its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3_600.0)];
    let seconds = units.iter().find_map(|(unit, seconds)| {
        let number: f64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
        Some(number * seconds)
    });
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| "a time is a number with its unit: ms, s, m or h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        let seconds = |text| duration(text).map(|time| time.as_secs_f64());
        for (text, right) in [("250ms", 0.25), ("1.5s", 1.5), ("2m", 120.0), ("1h", 3_600.0)] {
            assert_eq!(seconds(text), Ok(right));
        }
        for wrong in ["", "10", "s", "-1s", "1 day", "nans", "infs", "1e300h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_report_has_the_form_of_its_name() {
        let format = |text: &str| text.parse::<ReportFile>().map(|file| file.format);
        assert_eq!(format("a/b.json"), Ok(Format::Json));
        assert_eq!(format("c.hgrm"), Ok(Format::Hgrm));
        assert!(format("b.pdf").is_err() && format("json").is_err());
    }
}
