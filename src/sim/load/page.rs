//! A load's report as one page: figures, tables and charts.
//!
//! **Invariant**: the page is one file and asks for nothing from a network; it is readable in dark
//! and in light, and without scripts.

use hdrhistogram::Histogram;

use super::chart::{Axis, Chart, Line};
use super::count::CountedFrom;
use super::report::{Curves, Latency, Report, Restart, Second, Spread};
use super::table::{Compared, comparison, duration, figure, judged, ratio};
use crate::sim::summary::grouped;

const STYLES: &str = include_str!("page.css");

/// Points of a curve of percentiles between two powers of ten.
const POINTS: i32 = 20;

pub(super) fn page(report: &Report, baseline: Option<&Report>) -> String {
    let mut body = header(report);
    body.push_str(&tiles(report));
    body.push_str("<h2>Latency</h2>");
    body.push_str(&latencies(report));
    if !report.thresholds.is_empty() {
        let rows = report.thresholds.iter().map(|threshold| {
            let class = if threshold.met { "" } else { " class=\"bad\"" };
            format!("<tr><td{class}>{}</td></tr>", escaped(&judged(threshold)))
        });
        body.push_str(&titled("Thresholds", "", rows.collect()));
    }
    if let Some(baseline) = baseline {
        body.push_str(&compared(report, baseline));
    }
    if !report.errors.is_empty() {
        let rows = report.errors.iter();
        let rows = rows.map(|(code, n)| row([escaped(code), grouped(*n)]));
        body.push_str(&titled("Errors", "<tr><th>code</th><th>sends</th></tr>", rows.collect()));
    }
    body.push_str("<h2>Course</h2>");
    for chart in [throughput(report), times(report)] {
        body.push_str(&chart.figure());
    }
    if let Some(chart) = report.curves.as_ref().and_then(percentiles) {
        body.push_str("<h2>Spread</h2>");
        body.push_str(&chart.figure());
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
         name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>callboard \
         load</title>\n<style>\n{STYLES}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )
}

fn header(report: &Report) -> String {
    let Report { version, machine, seed, load, .. } = report;
    let mut header = "<h1>callboard load</h1>".to_owned();
    for line in [
        load.text(),
        machine.text(),
        format!("callboard {version}, {} build, seed {seed}", machine.build),
    ] {
        header.push_str(&format!("<p>{}</p>", escaped(&line)));
    }
    for Restart { at_s, gap_s } in &report.restarts {
        header.push_str(&format!(
            "<p>The bus's process was killed after {at_s:.3} s; {gap_s:.3} s later it took sends \
             again.</p>"
        ));
    }
    header
}

fn tiles(report: &Report) -> String {
    let unknown = || "–".to_owned();
    let counted = match report.counted_from {
        CountedFrom::Events => "counted from every event in the journals",
        CountedFrom::Sessions => "counted from the sessions' totals",
    };
    let accepted = report.latency_us.send_accepted.corrected;
    let tiles = [
        ("messages per second", grouped(report.messages_per_s.round() as u64), false),
        (
            "of the disk's limit",
            report.ratio_to_limit.map_or_else(unknown, |it| format!("{it:.3}")),
            false,
        ),
        ("send to accepted, p99", duration(accepted.p99 as f64), false),
        ("messages handled", grouped(report.handled), false),
        ("lost", grouped(report.lost), report.lost > 0),
        ("duplicates", grouped(report.duplicates), report.duplicates > 0),
        ("errors", grouped(report.n_errors()), false),
        ("processor per message", report.cpu_us_per_message.map_or_else(unknown, duration), false),
        (
            "journal per message",
            report.bytes_per_message.map_or_else(unknown, |it| format!("{it:.0} B")),
            false,
        ),
        ("memory", report.rss_bytes.map_or_else(unknown, |it| format!("{} MiB", it >> 20)), false),
    ];
    let tiles = tiles.map(|(name, value, is_bad)| {
        let class = if is_bad { "tile bad" } else { "tile" };
        format!("<div class=\"{class}\"><b>{value}</b><span>{name}</span></div>")
    });
    format!(
        "<div class=\"tiles\">{}</div><p>Lost and duplicates are {counted}.</p>",
        tiles.concat()
    )
}

fn latencies(report: &Report) -> String {
    let names = Spread::default().named().map(|(name, _)| format!("<th>{name}</th>")).concat();
    let mut rows = String::new();
    for (name, Latency { corrected, raw }) in report.latency_us.named() {
        for (kind, spread) in [("from the intended start", corrected), ("raw", raw)] {
            let times = spread.named().map(|(_, time)| duration(time as f64));
            rows.push_str(&row([format!("{name}, {kind}")].into_iter().chain(times)));
        }
    }
    format!("<div class=\"scroll\"><table><tr><th></th>{names}</tr>{rows}</table></div>")
}

fn compared(report: &Report, baseline: &Report) -> String {
    let rows = comparison(report, baseline);
    let rows = rows.iter().map(|Compared { name, before, now }| {
        row([(*name).to_owned(), figure(*before), figure(*now), ratio(*before, *now)])
    });
    let head = "<tr><th></th><th>before</th><th>now</th><th>now / before</th></tr>";
    let mut text = titled("Against the older report", head, rows.collect());
    if report.load != baseline.load {
        let other = escaped(&baseline.load.text());
        text.push_str(&format!("<p>The older load was another one: {other}.</p>"));
    }
    text
}

fn throughput(report: &Report) -> Chart {
    let series = &report.series;
    // The last second is cut short by the end of the load.
    let whole = series.len().saturating_sub(1).max(1);
    let line = |name, class, value: fn(&Second) -> u64| {
        let points =
            series.iter().take(whole).map(|second| (second.second as f64, value(second) as f64));
        Line { name, class, points: points.collect() }
    };
    let mut lines = vec![
        line("sent", "a", |second| second.sent),
        line("handled", "c", |second| second.handled),
    ];
    if report.n_errors() > 0 {
        lines.push(line("errors", "b", |second| second.errors));
    }
    let most = lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value);
    Chart {
        title: "Messages a second",
        below: "second of the load",
        horizontal: seconds(series),
        vertical: Axis::even(most.fold(0.0, f64::max), |tick| grouped(tick.round() as u64)),
        lines,
        marks: marks(report),
    }
}

fn times(report: &Report) -> Chart {
    let series = &report.series;
    let line = |name, class, value: fn(&Second) -> Option<u64>| {
        let point = |second: &Second| Some((second.second as f64, value(second)? as f64));
        Line { name, class, points: series.iter().filter_map(point).collect() }
    };
    let lines = vec![
        line("p50", "a", |second| second.send_accepted_p50_us),
        line("p99", "b", |second| second.send_accepted_p99_us),
        line("max", "c", |second| second.send_accepted_max_us),
    ];
    Chart {
        title: "Send to accepted, from the intended start",
        below: "second of the load",
        horizontal: seconds(series),
        vertical: time_axis(&lines),
        lines,
        marks: marks(report),
    }
}

fn percentiles(curves: &Curves) -> Option<Chart> {
    let Curves { receipt, accepted, handled } = curves;
    let lines = vec![
        Line { name: "receipt", class: "a", points: curve(receipt) },
        Line { name: "accepted", class: "b", points: curve(accepted) },
        Line { name: "handled", class: "c", points: curve(handled) },
    ];
    let most = lines.iter().flat_map(|line| &line.points).map(|(at, _)| *at).reduce(f64::max)?;
    let share = |above: f64| match above {
        1.0 => "0 %".to_owned(),
        above => format!("{} %", ((1.0 - 1.0 / above) * 1e6).round() / 1e4),
    };
    Some(Chart {
        title: "Times by share of messages, from the intended start",
        below: "share of messages that stay under",
        horizontal: Axis::logarithmic(1.0, most, share),
        vertical: time_axis(&lines),
        lines,
        marks: Vec::new(),
    })
}

/// Times by how few messages are left above: 1 is all of them, 100 is one of 100.
fn curve(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let above = (0..).map(|point| 10_f64.powf(f64::from(point) / f64::from(POINTS)));
    let above = above.take_while(|above| *above <= histogram.len() as f64);
    let point = |above: f64| (above, histogram.value_at_quantile(1.0 - 1.0 / above) as f64);
    above.map(point).collect()
}

fn seconds(series: &[Second]) -> Axis {
    let last = series.last().map_or(0, |second| second.second);
    Axis::even((last as f64).max(5.0), |tick| format!("{tick}"))
}

fn time_axis(lines: &[Line]) -> Axis {
    let times = || lines.iter().flat_map(|line| &line.points).map(|(_, time)| *time);
    let (least, most) = (times().reduce(f64::min), times().reduce(f64::max));
    let words = |micros: f64| match micros {
        few if few < 1e3 => format!("{few} µs"),
        some if some < 1e6 => format!("{} ms", some / 1e3),
        many => format!("{} s", many / 1e6),
    };
    Axis::logarithmic(least.unwrap_or(1.0).max(1.0), most.unwrap_or(1e3), words)
}

fn marks(report: &Report) -> Vec<(f64, f64, String)> {
    let mark = |restart: &Restart| {
        let Restart { at_s, gap_s } = restart;
        (*at_s, at_s + gap_s, format!("killed, {gap_s:.3} s without sends"))
    };
    report.restarts.iter().map(mark).collect()
}

fn titled(title: &str, head: &str, rows: String) -> String {
    format!("<h2>{title}</h2><div class=\"scroll\"><table>{head}{rows}</table></div>")
}

fn row(cells: impl IntoIterator<Item = String>) -> String {
    let cells: String = cells.into_iter().map(|cell| format!("<td>{cell}</td>")).collect();
    format!("<tr>{cells}</tr>")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::report::example;
    use super::*;

    #[test]
    fn m114_a_page_is_whole_and_needs_no_network() {
        let mut report = example();
        report.judge(&["p99<1ms".parse().unwrap()]);
        let page = page(&report, Some(&Report { seed: 2, ..example() }));
        for part in [
            "<!doctype html>",
            "a &lt;fast&gt; one",
            "p99&lt;1ms: MISSED",
            "MAILBOX_FULL",
            "killed, 0.250 s without sends",
            "99.9 %",
            "prefers-color-scheme:dark",
            "</html>",
        ] {
            assert!(page.contains(part), "{part} is missing in {page}");
        }
        for outside in ["http", "url(", "@import", "<script", "<link", "src="] {
            assert!(!page.contains(outside), "{outside} is in the page");
        }
        assert_eq!(page.matches("<svg").count(), 3);
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    }

    #[test]
    fn a_load_that_measured_nothing_has_a_page_too() {
        let report = Report { series: Vec::new(), curves: None, ..example() };
        assert_eq!(page(&report, None).matches("<svg").count(), 2);
    }
}
