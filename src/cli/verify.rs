//! `callboard journal verify`: reads everything and says whether it is sound.
//!
//! **Invariant**: damage below what is known to be on disk is exit code 1; a torn tail, which the
//! next opening cuts, is none.

use std::io::{self, Write};

use callboard::persist::log::{Damage, LogReader, VerifyReport};
use serde::Serialize;

use super::args::VerifyArgs;
use super::exit::{Failure, UNUSABLE};
use super::journal;
use super::shown::Labels;
use super::stage::written;

pub(crate) fn verify(args: &VerifyArgs) -> Result<(), Failure> {
    let VerifyArgs { dir, json } = args;
    let reader = journal::open(dir)?;
    let report = reader.verify().map_err(|fault| Failure::bus(dir, &fault.into()))?;
    let labels = if report.damage.is_empty() { Labels::default() } else { labels(&reader) };
    let text = match json {
        true => serde_json::to_string(&shown(&report, &labels))
            .map_err(|error| Failure::new(UNUSABLE, error.to_string()))?,
        false => text(&report, &labels),
    };
    written(writeln!(io::stdout(), "{text}"))?;
    match report.damage.len() {
        0 => Ok(()),
        1 => Err(Failure::new(UNUSABLE, format!("{}: damaged in one place", dir.display()))),
        n => Err(Failure::new(UNUSABLE, format!("{}: damaged in {n} places", dir.display()))),
    }
}

/// What sessions are called, as far as it can be read.
fn labels(reader: &LogReader) -> Labels {
    let mut labels = Labels::default();
    // What cannot be read is what this is about: whoever has no label is shown by id.
    drop(reader.frames(&mut |frame| drop(labels.learn(&frame))));
    labels
}

/// The report, with what damaged sessions are called.
#[derive(Serialize)]
struct Shown<'a> {
    groups: u64,
    frames: u64,
    sessions: u64,
    bytes: u64,
    unproved_bytes: u64,
    damage: Vec<Place<'a>>,
}

#[derive(Serialize)]
struct Place<'a> {
    #[serde(flatten)]
    damage: &'a Damage,
    labels: Vec<String>,
}

fn shown<'a>(report: &'a VerifyReport, labels: &Labels) -> Shown<'a> {
    let VerifyReport { groups, frames, sessions, bytes, unproved_bytes, damage } = report;
    let place = |damage: &'a Damage| Place {
        labels: damage.sessions.iter().map(|id| labels.label(*id)).collect(),
        damage,
    };
    Shown {
        groups: *groups,
        frames: *frames,
        sessions: *sessions,
        bytes: *bytes,
        unproved_bytes: *unproved_bytes,
        damage: damage.iter().map(place).collect(),
    }
}

fn text(report: &VerifyReport, labels: &Labels) -> String {
    let VerifyReport { groups, frames, sessions, bytes, unproved_bytes, damage } = report;
    let mut text =
        format!("{groups} groups, {frames} frames of {sessions} sessions, {bytes} bytes");
    if *unproved_bytes > 0 {
        text.push_str(&format!(", {unproved_bytes} bytes not yet proved"));
    }
    for place in damage {
        let names: Vec<String> = place.sessions.iter().map(|id| labels.label(*id)).collect();
        let whose = if names.is_empty() { "unknown sessions".to_owned() } else { names.join(", ") };
        text.push_str(&format!("\nposition {}: {}, of {whose}", place.position, place.what));
    }
    text
}
