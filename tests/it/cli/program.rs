//! Runs the binary, and knows the trace it is given.
//!
//! **Invariant**: every run has a directory of its own; nothing is shared between tests.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use callboard::sim::generate::generate;
use callboard::sim::meter::line_body;
use callboard::sim::trace::{Line, Trace, pairs};
use serde_json::Value;
use tempfile::TempDir;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(120);

/// The seed of the generated trace.
const TRACE_SEED: u64 = 1;

/// What a finished process left.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The exit code; none when a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("what is printed is text");
        Finished { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Finished {
    /// The summary that was printed as JSON, after success.
    pub(crate) fn summary(&self, context: &str) -> Value {
        assert_eq!(self.code, Some(0), "{context}: {self:?}");
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{context}: {error}: {self:?}"))
    }
}

/// A command of the binary with these arguments.
pub(crate) fn callboard<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
    command.args(args).env_remove("CALLBOARD_LOG").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it to its end.
pub(crate) fn finished<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Finished {
    callboard(args).output().expect("the binary starts").into()
}

/// Whether the long variants of the tests are wanted.
pub(crate) fn is_long() -> bool {
    std::env::var_os("CALLBOARD_LONG").is_some_and(|value| value == "1")
}

/// A trace on disk.
pub(crate) struct TraceFile {
    pub(crate) path: PathBuf,
    pub(crate) trace: Trace,
    _home: Option<TempDir>,
}

/// The trace that `CALLBOARD_TRACE` names, or a generated one of the same shape.
pub(crate) fn trace() -> TraceFile {
    if let Some(path) = std::env::var_os("CALLBOARD_TRACE").map(PathBuf::from) {
        println!("the trace is {}", path.display());
        let bytes = fs::read(&path).expect("the trace of CALLBOARD_TRACE can be read");
        let trace = Trace::parse(&bytes).expect("it is a trace");
        return TraceFile { path, trace, _home: None };
    }
    println!("the trace is generated with seed {TRACE_SEED}; CALLBOARD_TRACE names a real one");
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("trace.txt");
    let trace = generate(TRACE_SEED).expect("a trace");
    fs::write(&path, trace.to_string()).expect("the trace can be written");
    TraceFile { path, trace, _home: Some(home) }
}

/// An acceptance that the journal shows: sender, target, number.
pub(crate) type Accepted = (u64, u64, u64);

/// Checks in the dump of `data` that every line was accepted exactly once and in order per pair;
/// gives the line behind each acceptance.
pub(crate) fn assert_accepted_once(
    data: &Path,
    lines: &[Line],
    context: &str,
) -> HashMap<Accepted, u64> {
    let mut found: HashMap<(u64, u64), Vec<(u64, String)>> = HashMap::new();
    for shown in dump(data, context) {
        if shown["event"]["type"] == "accepted" {
            let pair = (person(&shown["event"]["from"]), person(&shown["label"]));
            let n = shown["event"]["n"].as_u64().expect("a number");
            let body = shown["event"]["message"]["body"]["text"].as_str().expect("a text");
            found.entry(pair).or_default().push((n, body.to_owned()));
        }
    }
    let mut behind = HashMap::new();
    for (pair, lines) in pairs(lines) {
        let right: Vec<(u64, String)> =
            (1..).zip(lines.iter().map(|line| line_body(line.number))).collect();
        let found = found.remove(&pair).unwrap_or_default();
        assert_eq!(found, right, "{context}: {} to {}", pair.0, pair.1);
        behind.extend((1..).zip(lines).map(|(n, line)| ((pair.0, pair.1, n), line.number)));
    }
    assert!(found.is_empty(), "{context}: acceptances that nobody sent: {found:?}");
    behind
}

/// Every line of the dump.
pub(crate) fn dump(data: &Path, context: &str) -> Vec<Value> {
    let dump = finished([OsStr::new("journal"), OsStr::new("dump"), data.as_os_str()]);
    assert_eq!(dump.code, Some(0), "{context}: {}", dump.err);
    let line = |line| serde_json::from_str(line).expect("a line of JSON");
    dump.out.lines().map(line).collect()
}

/// `journal verify` finds nothing.
pub(crate) fn assert_sound(data: &Path, context: &str) {
    let verify = finished([OsStr::new("journal"), OsStr::new("verify"), data.as_os_str()]);
    assert_eq!(verify.code, Some(0), "{context}: {verify:?}");
}

pub(crate) fn person(label: &Value) -> u64 {
    let label = label.as_str().expect("a label");
    // A session that a kill left half-made was made again under another label.
    let label = label.split("-remade-").next().expect("a label");
    label.strip_prefix('p').and_then(|number| number.parse().ok()).expect("a person's label")
}

/// A running process that is killed when the test is over.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        Running(command.spawn().expect("the binary starts"))
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.0.try_wait().expect("a child can be asked").is_some()
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().expect("kill is there");
        assert!(sent.success(), "the signal {name} could not be sent");
    }

    /// Waits until `seen`, or until the process is over, and says which.
    pub(crate) fn wait_until(&mut self, mut seen: impl FnMut() -> bool) -> bool {
        let start = Instant::now();
        while !seen() {
            if self.is_over() {
                return seen();
            }
            assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} for what must come");
            std::thread::park_timeout(Duration::from_millis(1));
        }
        true
    }

    pub(crate) fn finish(mut self) -> Finished {
        let mut output =
            Output { status: Default::default(), stdout: Vec::new(), stderr: Vec::new() };
        let read = |from: Option<&mut dyn Read>, to: &mut Vec<u8>| {
            from.map(|from| from.read_to_end(to).expect("a pipe can be read"));
        };
        read(self.0.stdout.as_mut().map(|pipe| pipe as _), &mut output.stdout);
        read(self.0.stderr.as_mut().map(|pipe| pipe as _), &mut output.stderr);
        output.status = self.0.wait().expect("a child ends");
        output.into()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over() {
            self.0.kill().expect("a child can be killed");
            self.0.wait().expect("a killed child ends");
        }
    }
}

/// Counts the lines of a file that grows and may not be there yet.
pub(crate) struct LineCounter {
    path: PathBuf,
    read: u64,
    n_lines: usize,
}

impl LineCounter {
    pub(crate) fn new(path: &Path) -> Self {
        LineCounter { path: path.to_owned(), read: 0, n_lines: 0 }
    }

    /// The lines so far.
    pub(crate) fn count(&mut self) -> usize {
        let Ok(mut file) = fs::File::open(&self.path) else { return 0 };
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.read)).expect("a file can be read from its middle");
        file.read_to_end(&mut bytes).expect("a file can be read");
        self.read += bytes.len() as u64;
        self.n_lines += bytes.iter().filter(|byte| **byte == b'\n').count();
        self.n_lines
    }
}
