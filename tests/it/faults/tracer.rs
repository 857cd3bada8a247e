//! The binary under strace, which lets chosen system calls of it fail.
//!
//! **Boundary**: calls are counted for each thread by itself, as strace counts them.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cli::program::{Finished, Running};

/// What a system call does instead of its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) call: &'static str,
    /// As strace takes it: `error=EIO`, `signal=SIGKILL`.
    pub(super) what: &'static str,
    /// Which calls of each thread, the first being 1: `7`, `7..9`.
    pub(super) when: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} when {}", self.call, self.what, self.when)
    }
}

impl Fault {
    /// Runs the binary with this fault to its end.
    pub(super) fn run(&self, args: &[String]) -> Finished {
        let Fault { call, what, when } = self;
        let inject = format!("inject={call}:{what}:when={when}");
        let home = tempfile::tempdir().expect("a directory");
        traced(call, &["-e", &inject], &home.path().join("calls"), args)
    }
}

/// How often the busiest thread of a run makes a call.
pub(super) fn n_calls(call: &str, args: &[String]) -> usize {
    let home = tempfile::tempdir().expect("a directory");
    let calls = home.path().join("calls");
    let run = traced(call, &[], &calls, args);
    assert_eq!(run.code, Some(0), "{call}: {run:?}");
    let text = std::fs::read_to_string(&calls).expect("what was traced can be read");
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for line in text.lines().filter(|line| line.contains(&format!(" {call}("))) {
        *counts.entry(line.split(' ').next().expect("a thread")).or_default() += 1;
    }
    counts.into_values().max().unwrap_or_else(|| panic!("no thread makes the call {call}"))
}

fn traced(call: &str, more: &[&str], calls: &Path, args: &[String]) -> Finished {
    let mut command = Command::new("strace");
    command.args(["-f", "--seccomp-bpf", "-qq", "-e", &format!("trace={call}"), "-o"]);
    command.arg(calls).args(more).arg(env!("CARGO_BIN_EXE_callboard")).args(args);
    command.env_remove("CALLBOARD_LOG").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = Running::start(command);
    // Only a run that hangs is not over in the end.
    run.wait_until(|| false);
    run.finish()
}
