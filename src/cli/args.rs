//! The flags, as they are typed.
//!
//! **Boundary**: what is wrong in itself is refused here (exit code 2), before a file is opened.

use std::path::PathBuf;
use std::time::Duration;

use callboard::config::{Durability, History};
use callboard::sim::profile::JournalOptions;
use clap::builder::TypedValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use super::journal;
use super::load_args::{LoadArgs, duration};

/// A session bus: every session is an actor with a journal; nothing sent is lost or doubled.
#[derive(Debug, Parser)]
#[command(name = "callboard", version, after_help = EXIT_CODES, infer_subcommands = false)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    malformed or unreadable trace, scenario, baseline or journal; damage found; messages of a
       load lost or doubled; data directory unusable, of another trace, scenario or load, or of a
       newer version
  2    wrong flags
  3    no such session, file, directory or journal
  75   the data directory is locked by another process
  99   a figure of a load missed its threshold
  130  interrupted, after an orderly stop

CALLBOARD_LOG=debug (or a filter such as callboard=info) writes a log to stderr.";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a scenario until all is quiet
    Run(RunArgs),
    /// Replay a message trace: every person a session, every line a message
    Replay(ReplayArgs),
    /// Let many sessions send, at a rate or as fast as they are handled, and measure it
    Load(LoadArgs),
    /// The process that runs the bus of a load that is to be killed
    #[command(hide = true)]
    LoadBus,
    /// Measure this machine
    #[command(subcommand)]
    Bench(BenchVerb),
    /// Look into a data directory, also while another process holds it
    #[command(subcommand)]
    Journal(JournalVerb),
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The scenario, in TOML
    #[arg(value_name = "FILE.toml")]
    pub(crate) scenario: PathBuf,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print the summary as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The trace: `from to unix-time` a line, separated by blanks
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// Replay the first N messages only
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// Append a line to FILE for each receipt as it is got: line, from, to, number, message id
    #[arg(long, value_name = "FILE")]
    pub(crate) receipts: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print the summary as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Keep the journal in DIR, and go on there after a kill; without it a temporary directory is
    /// used and removed at the end
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// What a receipt promises: on disk, handed to the kernel, or nothing
    #[arg(long, value_enum, default_value_t = DurabilityArg::Sync)]
    pub(crate) durability: DurabilityArg,
    /// Bytes of a segment file of a new journal; a multiple of 4096 [default: 16777216]. A journal
    /// that is there keeps its own
    #[arg(long, value_name = "BYTES", value_parser = segment_bytes)]
    pub(crate) segment_bytes: Option<u64>,
    /// Bytes of journal between two saves of the heads, which bound what a start reads
    /// [default: 64 MiB, or four times their own size]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) heads_every: Option<u64>,
    /// Frames of a session between two of its snapshots, at most [default: 256; replay: 32]
    #[arg(long, value_name = "FRAMES", value_parser = snapshot_every())]
    pub(crate) snapshot_every: Option<u64>,
    /// What becomes of segments that no session needs any more
    #[arg(long, value_enum, default_value_t = HistoryArg::Keep)]
    pub(crate) history: HistoryArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityArg {
    Sync,
    Written,
    Memory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HistoryArg {
    Keep,
    Drop,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JournalVerb {
    /// Read everything and check every checksum; changes nothing
    Verify(VerifyArgs),
    /// Print every event, one a line; changes nothing
    Dump(DumpArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchVerb {
    /// What the disk alone allows: one thread, groups of records, one flush a group
    Limit(LimitArgs),
}

#[derive(Debug, Args)]
pub(crate) struct LimitArgs {
    /// The directory whose disk is measured; nothing stays there [default: where temporary files
    /// go]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// How long: a number with its unit, ms, s, m or h
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Print the figures as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The data directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Print the findings as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    /// The data directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Print the events of this session only; its id will do too
    #[arg(long, value_name = "LABEL")]
    pub(crate) session: Option<String>,
    /// Print JSON lines on a terminal too; anywhere else they are printed anyway
    #[arg(long)]
    pub(crate) jsonl: bool,
}

fn snapshot_every() -> impl TypedValueParser<Value = u64> {
    clap::value_parser!(u64).range(1..=1_000_000)
}

fn segment_bytes(text: &str) -> Result<u64, &'static str> {
    let fits = |bytes: &u64| (8_192..=1 << 30).contains(bytes) && bytes.is_multiple_of(4_096);
    let bytes = text.parse().ok().filter(fits);
    bytes.ok_or("it must be a multiple of 4096 from 8192 to 1073741824")
}

impl StoreArgs {
    /// What the journal is to be like. The size of segments is the journal's own where there is
    /// one.
    pub(crate) fn options(&self) -> JournalOptions {
        let own = self.data.as_deref().and_then(journal::segment_bytes);
        if let (Some(own), Some(wanted), Some(dir)) = (own, self.segment_bytes, &self.data)
            && own != wanted
        {
            let dir = dir.display();
            eprintln!("callboard: {dir} has segments of {own} bytes and keeps them");
        }
        JournalOptions {
            durability: match self.durability {
                DurabilityArg::Sync => Durability::Sync,
                DurabilityArg::Written => Durability::Written,
                DurabilityArg::Memory => Durability::Memory,
            },
            segment_bytes: own.or(self.segment_bytes),
            heads_every: self.heads_every,
            snapshot_every: self.snapshot_every,
            history: match self.history {
                HistoryArg::Keep => History::Keep,
                HistoryArg::Drop => History::Drop,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_flags_are_well_formed() {
        Cli::command().debug_assert();
    }
}
