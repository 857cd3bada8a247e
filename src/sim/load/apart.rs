//! A load whose bus runs in a process of its own, which is killed in the middle and started again.
//!
//! **Invariant**: the clock and everything that was measured outlive the kill. What became of a
//! send whose receipt the kill has lost is read from the journal, so that nothing is sent twice and
//! nothing is left out.

use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::count::Totals;
use super::desk::{Desk, Outlet};
use super::machine::Usage;
use super::pipe::{Asks, Assignment, Tell, read_lines};
use super::plan::Plan;
use super::report::Restart;
use super::run::{self, Left, LoadError, Pacing, Program};
use crate::sim::runner::{self, Stage, Told};

/// Runs a load; none where it was stopped.
pub(super) async fn run(
    (plan, restart_at): (&Plan, Duration),
    stage: Stage,
    (name, program): (&str, &Program),
) -> Result<Option<Left>, LoadError> {
    let Stage { data, config, mut stop, tell } = stage;
    let assignment = Assignment::new(data, name.to_owned(), plan.clone(), &config.store);
    let desk = run::desk(plan, Outlet::Apart(Mutex::new(None)))?;
    let start = || Host::start(program, &assignment, &desk);
    tokio::select! {
        biased;
        () = runner::stopped(&mut stop) => Ok(None),
        left = loaded((plan, restart_at), &desk, start, tell.as_ref()) => left.map(Some),
    }
}

async fn loaded(
    (plan, restart_at): (&Plan, Duration),
    desk: &Arc<Desk>,
    start: impl Fn() -> Result<Host, LoadError>,
    tell: &dyn Fn(Told),
) -> Result<Left, LoadError> {
    let mut host = start()?;
    let queued = host.ready().await?;
    let first = host.usage();
    desk.regain_clients(host.asks.clone(), &queued);
    let pacing = Pacing::start(plan, desk)?;
    let told = || {
        tell(run::told(plan, desk, pacing.count));
        Ok(())
    };
    let kill = async {
        let mut looks = tokio::time::interval(Duration::from_millis(1));
        while u128::from(desk.now()) < restart_at.as_micros() {
            if desk.all_sent() {
                return Err(LoadError::OverBefore);
            }
            host.alive()?;
            looks.tick().await;
        }
        Ok(())
    };
    runner::told(kill, told).await?;
    let before = host.usage();
    desk.lose_clients();
    let killed_at = desk.now();
    host.kill();
    host = start()?;
    let queued = host.ready().await?;
    desk.regain_clients(host.asks.clone(), &queued);
    let restart = Restart {
        at_s: killed_at as f64 / 1e6,
        gap_s: desk.now().saturating_sub(killed_at) as f64 / 1e6,
    };
    let sent = async {
        let mut looks = tokio::time::interval(Duration::from_millis(5));
        while !desk.all_sent() {
            host.alive()?;
            looks.tick().await;
        }
        Ok(())
    };
    runner::told(sent, told).await?;
    let last = host.usage();
    host.asks.end();
    let totals = host.totals().await?;
    let usage = before.zip(first).zip(last).map(|((before, first), last)| Usage {
        cpu_us: before.cpu_us.saturating_sub(first.cpu_us) + last.cpu_us,
        ..last
    });
    let desk = Arc::clone(desk);
    Ok(Left { desk, totals, usage, restarts: vec![restart], memory_bytes: None })
}

/// What the process that runs the bus has said.
enum Said {
    /// Nothing is pending; so many messages are in each client's journal.
    Ready(HashMap<u32, u64>),
    Totals(Totals),
}

/// The process that runs the bus. Dropped, it is killed.
struct Host {
    child: Child,
    asks: Asks,
    said: UnboundedReceiver<Said>,
    /// The thread that hears it; gives what it printed to stderr.
    hearing: Option<JoinHandle<()>>,
    errors: Option<JoinHandle<String>>,
}

impl Host {
    fn start(
        program: &Program,
        assignment: &Assignment,
        desk: &Arc<Desk>,
    ) -> Result<Self, LoadError> {
        let failed = |error| LoadError::System("cannot start the bus's process", error);
        let mut command = Command::new(&program.path);
        command.args(&program.arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().map_err(failed)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut input), Some(output), Some(mut errors)) = pipes else {
            return Err(failed(std::io::Error::other("it has no pipes")));
        };
        let mut line = serde_json::to_string(assignment).map_err(|error| failed(error.into()))?;
        line.push('\n');
        // Where it has ended already, its own sentence says why.
        input.write_all(line.as_bytes()).unwrap_or_default();
        let (say, said) = unbounded_channel();
        let desk = Arc::clone(desk);
        Ok(Host {
            child,
            asks: Asks::start(input),
            said,
            hearing: Some(std::thread::spawn(move || hear(BufReader::new(output), &desk, &say))),
            errors: Some(std::thread::spawn(move || {
                let mut text = Vec::new();
                errors.read_to_end(&mut text).unwrap_or_default();
                String::from_utf8_lossy(&text).into_owned()
            })),
        })
    }

    async fn ready(&mut self) -> Result<HashMap<u32, u64>, LoadError> {
        match self.said.recv().await {
            Some(Said::Ready(queued)) => Ok(queued),
            Some(Said::Totals(_)) | None => Err(self.failure()),
        }
    }

    async fn totals(&mut self) -> Result<Totals, LoadError> {
        let Some(Said::Totals(totals)) = self.said.recv().await else {
            return Err(self.failure());
        };
        match self.child.wait() {
            Ok(status) if status.success() => Ok(totals),
            Ok(_) | Err(_) => Err(self.failure()),
        }
    }

    /// Whether it still runs.
    fn alive(&mut self) -> Result<(), LoadError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(_)) | Err(_) => Err(self.failure()),
        }
    }

    fn usage(&self) -> Option<Usage> {
        Usage::of(self.child.id())
    }

    /// Kills it, as by `kill -9`, and hears what it had said.
    fn kill(&mut self) {
        // Where it has ended before, there is nothing to kill.
        self.child.kill().unwrap_or_default();
        drop(self.child.wait());
        if let Some(hearing) = self.hearing.take() {
            drop(hearing.join());
        }
    }

    /// Why it has ended, in its own words.
    fn failure(&mut self) -> LoadError {
        let code = self.child.wait().ok().and_then(|status| status.code());
        let errors = self.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default();
        let last = errors.lines().rfind(|line| !line.trim().is_empty());
        let text = match last.map(|line| line.strip_prefix("callboard: ").unwrap_or(line)) {
            Some(sentence) => sentence.to_owned(),
            None => "the bus's process ended without a word".to_owned(),
        };
        LoadError::Process { code: code.and_then(|code| u8::try_from(code).ok()), text }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Hears all that the process says, until it is gone.
fn hear(output: BufReader<impl Read>, desk: &Desk, say: &UnboundedSender<Said>) {
    let mut queued = HashMap::new();
    read_lines(output, |line| match Tell::read(line) {
        Some(Tell::News(news)) => desk.hear(&news),
        Some(Tell::Queued { client, count }) => drop(queued.insert(client, count)),
        Some(Tell::Ready) => drop(say.send(Said::Ready(std::mem::take(&mut queued)))),
        Some(Tell::Totals(totals)) => drop(say.send(Said::Totals(totals))),
        None => tracing::warn!("the bus's process says what nobody understands"),
    });
}
