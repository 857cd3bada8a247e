//! A load's figures as tables for people, with those of an older report beside them.

use comfy_table::{CellAlignment, Table, presets};

use super::count::CountedFrom;
use super::report::{Latency, Report, Spread};
use super::threshold::Judged;
use crate::sim::summary::grouped;

pub(super) fn text(report: &Report, baseline: Option<&Report>) -> String {
    let mut parts = vec![report.load.text(), figures(report), latencies(report)];
    if let Some(baseline) = baseline {
        parts.push(compared(report, baseline));
    }
    if !report.thresholds.is_empty() {
        let lines: Vec<String> = report.thresholds.iter().map(judged).collect();
        parts.push(lines.join("\n"));
    }
    parts.join("\n\n")
}

fn figures(report: &Report) -> String {
    let unknown = || "not known".to_owned();
    let errors = match report.errors.is_empty() {
        true => "0".to_owned(),
        false => {
            let errors = report.errors.iter();
            errors.map(|(code, n)| format!("{code} {}", grouped(*n))).collect::<Vec<_>>().join(", ")
        }
    };
    let counted = match report.counted_from {
        CountedFrom::Events => "every event in the journals",
        CountedFrom::Sessions => "the totals of the sessions' journals",
    };
    let mut rows = vec![
        ("sent", grouped(report.sent)),
        ("handled", grouped(report.handled)),
        ("lost", grouped(report.lost)),
        ("duplicates", grouped(report.duplicates)),
        ("counted from", counted.to_owned()),
        ("errors", errors),
        ("elapsed", format!("{:.3} s", report.elapsed_s)),
        ("messages per second", grouped(report.messages_per_s.round() as u64)),
        (
            "limit of the disk",
            match report.limit_messages_per_s {
                Some(limit) => format!("{} messages per second", grouped(limit.round() as u64)),
                None => unknown(),
            },
        ),
        ("ratio to the limit", report.ratio_to_limit.map_or_else(unknown, |it| format!("{it:.3}"))),
        (
            "journal per message",
            match report.bytes_per_message {
                Some(bytes) => format!("{bytes:.0} bytes"),
                None => unknown(),
            },
        ),
        (
            "processor per message",
            match report.cpu_us_per_message {
                Some(micros) => format!("{micros:.1} µs"),
                None => unknown(),
            },
        ),
        (
            "memory",
            match report.rss_bytes {
                Some(bytes) => format!("{} MiB", grouped(bytes >> 20)),
                None => unknown(),
            },
        ),
    ];
    for restart in &report.restarts {
        let text = format!("after {:.3} s, {:.3} s without sends", restart.at_s, restart.gap_s);
        rows.push(("killed", text));
    }
    rows.push(("machine", report.machine.text()));
    rows.push(("build", format!("callboard {}, {}", report.version, report.machine.build)));
    rows.push(("seed", report.seed.to_string()));
    let mut table = plain();
    for (name, value) in rows {
        table.add_row([name.to_owned(), value]);
    }
    table.trim_fmt()
}

fn latencies(report: &Report) -> String {
    let mut table = plain();
    let names = Spread::default().named().map(|(name, _)| name.to_owned());
    table.add_row(["latency".to_owned(), String::new()].into_iter().chain(names));
    for (name, Latency { corrected, raw }) in report.latency_us.named() {
        for (kind, spread) in [("corrected", corrected), ("raw", raw)] {
            let times = spread.named().map(|(_, time)| duration(time as f64));
            table.add_row([name.to_owned(), kind.to_owned()].into_iter().chain(times));
        }
    }
    for column in 2..7 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

fn compared(report: &Report, baseline: &Report) -> String {
    let mut table = plain();
    table.add_row(["figure", "before", "now", "now / before"]);
    for Compared { name, before, now } in comparison(report, baseline) {
        let ratio = ratio(before, now);
        table.add_row([name.to_owned(), figure(before), figure(now), ratio]);
    }
    let mut text = table.trim_fmt();
    if report.load != baseline.load {
        text.push_str(&format!("\nthe older load was another one: {}", baseline.load.text()));
    }
    text
}

/// A figure of two reports.
pub(super) struct Compared {
    pub(super) name: &'static str,
    pub(super) before: Option<f64>,
    pub(super) now: Option<f64>,
}

/// What is worth comparing.
pub(super) fn comparison(report: &Report, baseline: &Report) -> Vec<Compared> {
    let figures = |report: &Report| {
        let latency = &report.latency_us;
        let time =
            |latency: &Latency, micros: u64| (latency.corrected.max > 0).then_some(micros as f64);
        let (accepted, handled) = (&latency.send_accepted, &latency.send_handled);
        [
            ("messages per second", Some(report.messages_per_s)),
            ("ratio to the limit", report.ratio_to_limit),
            ("send to accepted p50, µs", time(accepted, accepted.corrected.p50)),
            ("send to accepted p99, µs", time(accepted, accepted.corrected.p99)),
            ("send to handled p99, µs", time(handled, handled.corrected.p99)),
            ("processor per message, µs", report.cpu_us_per_message),
            ("journal per message, bytes", report.bytes_per_message),
            ("memory, bytes", report.rss_bytes.map(|bytes| bytes as f64)),
        ]
    };
    let pairs = figures(baseline).into_iter().zip(figures(report));
    pairs.map(|((name, before), (_, now))| Compared { name, before, now }).collect()
}

/// How many times the older figure the newer one is.
pub(super) fn ratio(before: Option<f64>, now: Option<f64>) -> String {
    match before.zip(now) {
        Some((before, now)) if before > 0.0 => format!("{:.2}", now / before),
        Some(_) | None => "–".to_owned(),
    }
}

/// A figure of a comparison.
pub(super) fn figure(figure: Option<f64>) -> String {
    match figure {
        Some(figure) if figure < 100.0 => format!("{figure:.2}"),
        Some(figure) => grouped(figure.round() as u64),
        None => "–".to_owned(),
    }
}

/// A threshold and what became of it, in one line.
pub(super) fn judged(judged: &Judged) -> String {
    let Judged { threshold, value, met } = judged;
    let outcome = if *met { "met" } else { "MISSED" };
    let value = value.map_or("not known".to_owned(), |value| figure(Some(value)));
    let is_time = ["p50", "p90", "p99", "max"].iter().any(|share| threshold.contains(share));
    format!("threshold {threshold}: {outcome}, it is {value}{}", if is_time { " µs" } else { "" })
}

/// A time of so many microseconds, in the unit that suits it.
pub(super) fn duration(micros: f64) -> String {
    match micros {
        0.0 => "–".to_owned(),
        few if few < 1e3 => format!("{few:.0} µs"),
        some if some < 1e6 => format!("{:.2} ms", some / 1e3),
        many => format!("{:.2} s", many / 1e6),
    }
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

#[cfg(test)]
mod tests {
    use super::super::report::example;
    use super::*;

    #[test]
    fn the_tables_name_everything() {
        let mut report = example();
        let thresholds = ["p99<1ms".parse().unwrap(), "lost==0".parse().unwrap()];
        assert!(!report.judge(&thresholds));
        let baseline = Report { messages_per_s: 997.0, seed: 2, ..example() };
        let text = report.text(Some(&baseline));
        for part in [
            "4 sessions, ring, open loop, 1000 messages/s, 100 messages",
            "MAILBOX_FULL 3",
            "after 1.500 s, 0.250 s without sends",
            "callboard 0.1.0, release",
            "0.50",
            "threshold p99<1ms: MISSED, it is 9,900 µs",
            "threshold lost==0: met, it is 0.00",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert!(!text.contains("another one"), "{text}");
    }

    #[test]
    fn a_time_has_the_unit_that_suits_it() {
        let times = [0.0, 15.0, 1_500.0, 2_500_000.0].map(duration);
        assert_eq!(times, ["–", "15 µs", "1.50 ms", "2.50 s"]);
    }
}
