//! `callboard bench limit`: what the disk alone allows on this machine.
//!
//! **Boundary**: the same measurement that every load compares itself with.

use std::io::{self, Write};

use callboard::sim::limit::{self, Limit, Work};

use super::args::LimitArgs;
use super::exit::{Failure, UNUSABLE};
use super::journal::not_a_file;
use super::stage::written;

/// Bytes of the bodies, as a load has them unless it is told.
const BODY: usize = 256;

pub(crate) fn limit(args: &LimitArgs) -> Result<(), Failure> {
    let LimitArgs { data, duration, json } = args;
    let dir = data.clone().unwrap_or_else(std::env::temp_dir);
    not_a_file(&dir)?;
    let work = Work::of_bodies(BODY, *duration);
    let limit = limit::measure(&dir, work).map_err(|error| Failure::io("measure", &dir, &error))?;
    let text = match json {
        true => serde_json::to_string(&limit)
            .map_err(|error| Failure::new(UNUSABLE, error.to_string()))?,
        false => text(&limit),
    };
    written(writeln!(io::stdout(), "{text}"))
}

fn text(limit: &Limit) -> String {
    let Limit { messages_per_s, records_per_s, group_p50_us, group_p99_us, .. } = limit;
    format!(
        "{messages_per_s:.0} messages per second, of two records of {} bytes each\n\
         {records_per_s:.0} records per second, {} in a group\n\
         a group takes {group_p50_us} µs at the median, 99 of 100 at most {group_p99_us} µs",
        limit.record_bytes, limit.records_per_group,
    )
}
