//! `callboard journal verify`: reads everything and says whether it is sound.
//!
//! **Invariant**: damage below what is known to be on disk is exit code 1; a torn tail, which the
//! next opening cuts, is none.

use std::io::{self, Write};

use callboard::persist::log::VerifyReport;

use super::args::VerifyArgs;
use super::exit::{Failure, UNUSABLE};
use super::journal;
use super::stage::written;

pub(crate) fn verify(args: &VerifyArgs) -> Result<(), Failure> {
    let VerifyArgs { dir, json } = args;
    let reader = journal::open(dir)?;
    let report = reader.verify().map_err(|fault| Failure::bus(dir, &fault.into()))?;
    let text = match json {
        true => serde_json::to_string(&report)
            .map_err(|error| Failure::new(UNUSABLE, error.to_string()))?,
        false => text(&report),
    };
    written(writeln!(io::stdout(), "{text}"))?;
    match report.damage.len() {
        0 => Ok(()),
        1 => Err(Failure::new(UNUSABLE, format!("{}: damaged in one place", dir.display()))),
        n => Err(Failure::new(UNUSABLE, format!("{}: damaged in {n} places", dir.display()))),
    }
}

fn text(report: &VerifyReport) -> String {
    let VerifyReport { groups, frames, sessions, bytes, unproved_bytes, damage } = report;
    let mut text =
        format!("{groups} groups, {frames} frames of {sessions} sessions, {bytes} bytes");
    if *unproved_bytes > 0 {
        text.push_str(&format!(", {unproved_bytes} bytes not yet proved"));
    }
    for place in damage {
        let ids: Vec<String> = place.sessions.iter().map(ToString::to_string).collect();
        let whose = if ids.is_empty() { "unknown sessions".to_owned() } else { ids.join(", ") };
        text.push_str(&format!("\nposition {}: {}, of {whose}", place.position, place.what));
    }
    text
}
