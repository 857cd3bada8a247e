//! How a verb fails: an exit code and one sentence.
//!
//! **Invariant**: codes never change their meaning; `docs/cli.md` lists them.

use std::io;
use std::path::Path;

use callboard::sim::load::LoadError;
use callboard::sim::runner::RunError;
use callboard::{Code, Error};

/// A verb's failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// One sentence; none when everything has been said.
    pub(crate) text: Option<String>,
}

/// Malformed or unreadable input, damage, an unusable data directory.
pub(crate) const UNUSABLE: u8 = 1;
/// Wrong flags.
pub(crate) const FLAGS: u8 = 2;
/// No such session, file, directory or journal.
pub(crate) const MISSING: u8 = 3;
/// Another process holds the data directory.
pub(crate) const LOCKED: u8 = 75;
/// A figure of a load missed its threshold.
pub(crate) const MISSED: u8 = 99;
/// Interrupted, after an orderly stop.
pub(crate) const INTERRUPTED: u8 = 130;

impl Failure {
    pub(crate) fn new(code: u8, text: impl Into<String>) -> Self {
        Failure { code, text: Some(text.into()) }
    }

    /// A file or directory that the system does not give.
    pub(crate) fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        let path = path.display();
        match error.kind() {
            io::ErrorKind::NotFound => Failure::new(
                MISSING,
                format!("cannot {doing} {path}: there is no such file or directory"),
            ),
            _ => Failure::new(UNUSABLE, format!("cannot {doing} {path}: {error}")),
        }
    }

    /// What the bus or the journal in `dir` says.
    pub(crate) fn bus(dir: &Path, error: &Error) -> Self {
        let code = match error.code() {
            Code::StoreLocked => LOCKED,
            Code::NotFound => MISSING,
            _ => UNUSABLE,
        };
        Failure::new(code, format!("{}: {error}", dir.display()))
    }

    /// What a load in `dir` says.
    pub(crate) fn load(dir: &Path, error: &LoadError) -> Self {
        match error {
            LoadError::Run(error) => Failure::run(dir, error),
            LoadError::Process { code, text } => Failure::new(code.unwrap_or(UNUSABLE), text),
            LoadError::System(..) | LoadError::OverBefore => {
                Failure::new(UNUSABLE, error.to_string())
            }
        }
    }

    /// What a run in `dir` says.
    pub(crate) fn run(dir: &Path, error: &RunError) -> Self {
        match error {
            RunError::Bus(error) if error.code() == Code::NotFound => {
                Failure::new(UNUSABLE, format!("{}: {error}", dir.display()))
            }
            RunError::Bus(error) => Failure::bus(dir, error),
            RunError::Receipts { path, error } => Failure::io("write receipts to", path, error),
            RunError::Stranded(_) | RunError::Damaged(_) => {
                Failure::new(UNUSABLE, format!("{}: {error}", dir.display()))
            }
            RunError::Receipt(_) => Failure::new(UNUSABLE, error.to_string()),
        }
    }
}
