//! `callboard load`: many sessions that send, and what it took.
//!
//! **Invariant**: flags, the baseline and the places of the reports are checked before anything is
//! made; the figures are printed before a missed threshold is told.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use callboard::sim::load::{self, LoadEnd, Program, Report};

use super::exit::{FLAGS, Failure, INTERRUPTED, MISSED, UNUSABLE};
use super::load_args::{Format, LoadArgs, ReportFile};
use super::stage::{self, Home, could_be_written, written};

/// The verb of the process that runs a bus which is to be killed.
const LOAD_BUS: &str = "load-bus";

pub(crate) fn load(args: &LoadArgs) -> Result<(), Failure> {
    let (plan, config) = (args.plan(), args.store.options().load_config());
    let wrong = |text| Failure::new(FLAGS, text);
    plan.check(config.limits.message_max).map_err(wrong)?;
    config.validate().map_err(|refused| wrong(refused.text))?;
    let baseline = args.baseline.as_deref().map(baseline).transpose()?;
    for ReportFile { path, .. } in &args.report {
        could_be_written(path).map_err(|error| Failure::io("write a report to", path, &error))?;
    }
    let path = std::env::current_exe()
        .map_err(|error| Failure::new(UNUSABLE, format!("cannot find this program: {error}")))?;
    let program = Program { path, arguments: vec![LOAD_BUS.to_owned()] };
    let home = Home::new(&args.store, &config)?;
    let run = |stage| async { load::load(plan, stage, &program).await };
    let end = stage::on_stage(home.path(), config, run)?;
    let mut report = match end.map_err(|error| Failure::load(home.path(), &error))? {
        LoadEnd::Done(report) => report,
        LoadEnd::Stopped => {
            let text = "interrupted; a load does not go on, so take an empty directory next time";
            return Err(Failure::new(INTERRUPTED, text));
        }
    };
    let met = report.judge(&args.threshold);
    let text = match args.json {
        true => json(&report)?,
        false => report.text(baseline.as_ref()),
    };
    written(writeln!(io::stdout(), "{text}"))?;
    for ReportFile { path, format } in &args.report {
        let text = rendered(&report, baseline.as_ref(), *format)?;
        fs::write(path, text).map_err(|error| Failure::io("write a report to", path, &error))?;
    }
    verdict(&report, met)
}

/// Runs the bus for another process; nobody but that one calls for it.
pub(crate) fn serve_child() -> Result<(), Failure> {
    let served = stage::runtime()?.block_on(load::serve_child());
    served.map_err(|(data, error)| {
        Failure::load(data.as_deref().unwrap_or(Path::new("the bus's process")), &error)
    })
}

fn baseline(path: &Path) -> Result<Report, Failure> {
    let read = fs::read(path).map_err(|error| Failure::io("read the baseline", path, &error))?;
    Report::read(&read).map_err(|error| {
        let text = format!("the baseline {} is no report of a load: {error}", path.display());
        Failure::new(UNUSABLE, text)
    })
}

fn rendered(report: &Report, old: Option<&Report>, format: Format) -> Result<String, Failure> {
    Ok(match format {
        Format::Json => json(report)? + "\n",
        Format::Csv => report.csv(),
        Format::Html => report.html(old),
        Format::Hgrm => report.hgrm(),
    })
}

fn json(report: &Report) -> Result<String, Failure> {
    report.json().map_err(|error| Failure::new(UNUSABLE, error.to_string()))
}

/// What is lost or doubled weighs more than what is slow.
fn verdict(report: &Report, met: bool) -> Result<(), Failure> {
    let Report { lost, duplicates, .. } = report;
    if *lost > 0 || *duplicates > 0 {
        let text = format!("{lost} messages were lost and {duplicates} doubled");
        return Err(Failure::new(UNUSABLE, text));
    }
    if met {
        return Ok(());
    }
    let missed = report.thresholds.iter().filter(|judged| !judged.met);
    let missed: Vec<&str> = missed.map(|judged| judged.threshold.as_str()).collect();
    Err(Failure::new(MISSED, format!("missed: {}", missed.join(", "))))
}
