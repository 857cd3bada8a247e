//! Where a run lives and how it ends: data directory, runtime, signals, summary.
//!
//! **Invariant**: a temporary data directory is named on stderr and removed at the end, however the
//! run ends short of a kill.

use std::fs::{self, OpenOptions};
use std::future::Future;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use callboard::Config;
use callboard::config::Durability;
use callboard::sim::runner::{End, RunError, Stage};
use callboard::sim::summary::Summary;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::args::StoreArgs;
use super::exit::{FLAGS, Failure, INTERRUPTED, UNUSABLE};
use super::journal::not_a_file;
use super::progress::Progress;

/// Runs on a stage until the end and prints the summary.
pub(crate) fn perform<F>(
    store: &StoreArgs,
    config: Config,
    json: bool,
    run: impl FnOnce(Stage) -> F,
) -> Result<(), Failure>
where
    F: Future<Output = Result<End, RunError>>,
{
    let home = Home::new(store, &config)?;
    let data = home.path().to_owned();
    let end = on_stage(&data, config, run)?;
    match end.map_err(|error| Failure::run(home.shown(), &error))? {
        End::Quiet(summary) => {
            print(&summary, json)?;
            home.warn_of_lost(&summary);
            Ok(())
        }
        End::Stopped => Err(Failure::new(INTERRUPTED, home.how_to_go_on())),
    }
}

/// Runs on a stage until the end, whatever that is.
pub(crate) fn on_stage<F: Future>(
    data: &Path,
    config: Config,
    run: impl FnOnce(Stage) -> F,
) -> Result<F::Output, Failure> {
    let runtime = runtime()?;
    let progress = Rc::new(Progress::new());
    let end = runtime.block_on(async {
        let (tell, stop) = (Rc::clone(&progress), stop_signal());
        let tell = Box::new(move |told| tell.tell(told));
        run(Stage { data: data.to_owned(), config, stop, tell }).await
    });
    progress.end();
    Ok(end)
}

/// What a verb waits on.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::new(UNUSABLE, format!("cannot start: {error}")))
}

/// The data directory.
pub(crate) enum Home {
    Kept(PathBuf),
    Temporary(TempDir),
    Nowhere,
}

impl Home {
    /// Checks the limits, then where the journal is to lie.
    pub(crate) fn new(store: &StoreArgs, config: &Config) -> Result<Self, Failure> {
        config.validate().map_err(|refused| Failure::new(FLAGS, refused.text))?;
        match (&store.data, config.store.durability) {
            (Some(_), Durability::Memory) => Err(Failure::new(
                FLAGS,
                "--durability memory keeps nothing in --data; drop one of them",
            )),
            (None, Durability::Memory) => Ok(Home::Nowhere),
            (Some(data), Durability::Sync | Durability::Written) => {
                not_a_file(data)?;
                Ok(Home::Kept(data.clone()))
            }
            (None, Durability::Sync | Durability::Written) => {
                let made = tempfile::Builder::new().prefix("callboard-").tempdir();
                let made = made.map_err(|error| {
                    Failure::new(UNUSABLE, format!("cannot make a temporary directory: {error}"))
                })?;
                let path = made.path().display();
                eprintln!("callboard: the journal is in {path} until the end; --data DIR keeps it");
                Ok(Home::Temporary(made))
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Home::Kept(path) => path,
            Home::Temporary(made) => made.path(),
            Home::Nowhere => Path::new("memory"),
        }
    }

    /// What it is called when it may be gone already.
    fn shown(&self) -> &Path {
        match self {
            Home::Kept(path) => path,
            Home::Temporary(_) => Path::new("the temporary data directory"),
            Home::Nowhere => Path::new("memory"),
        }
    }

    /// Says that some messages came to no good end, and how to see why.
    fn warn_of_lost(&self, summary: &Summary) {
        let Summary { dead, refused, .. } = summary;
        if *dead + *refused == 0 {
            return;
        }
        let how = match self {
            Home::Kept(path) => format!("`callboard journal dump {}` says why", path.display()),
            Home::Temporary(_) | Home::Nowhere => {
                "with --data DIR, `callboard journal dump DIR` says why".to_owned()
            }
        };
        eprintln!("callboard: warning: {dead} messages are dead and {refused} were refused; {how}");
    }

    fn how_to_go_on(&self) -> String {
        match self {
            Home::Kept(path) => {
                format!("interrupted; the same command with --data {} goes on", path.display())
            }
            Home::Temporary(_) | Home::Nowhere => "interrupted; nothing is kept".to_owned(),
        }
    }
}

/// What comes so soon after a first interrupt is not a second one.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// Becomes true at the first interrupt, termination or loss of the terminal; the second one ends
/// the process at once.
fn stop_signal() -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        interrupted().await;
        sender.send_replace(true);
        // A shell may tell a process twice: by itself and with its group.
        tokio::time::sleep(SAME_SIGNAL).await;
        interrupted().await;
        std::process::exit(i32::from(INTERRUPTED));
    });
    receiver
}

#[cfg(unix)]
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminated), Ok(mut hung_up)) =
        (signal(SignalKind::terminate()), signal(SignalKind::hangup()))
    else {
        return std::future::pending().await;
    };
    let interrupted = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    };
    tokio::select! {
        () = interrupted => {}
        _ = terminated.recv() => {}
        _ = hung_up.recv() => {}
    }
}

#[cfg(not(unix))]
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

fn print(summary: &Summary, json: bool) -> Result<(), Failure> {
    let text = match json {
        true => summary.json().map_err(|error| Failure::new(UNUSABLE, error.to_string()))?,
        false => summary.table(),
    };
    written(writeln!(io::stdout(), "{text}")).map_err(|failure| Failure {
        text: failure.text.map(|text| format!("all is quiet, but the summary is not told: {text}")),
        ..failure
    })
}

/// Whether a file can be appended to, or has a directory to be made in; makes nothing.
pub(crate) fn could_be_written(path: &Path) -> io::Result<()> {
    match OpenOptions::new().append(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            fs::metadata(parent.unwrap_or(Path::new("."))).map(drop)
        }
        opened => opened.map(drop),
    }
}

/// A reader of stdout that has gone away has seen enough; anything else is a failure.
pub(crate) fn written(outcome: io::Result<()>) -> Result<(), Failure> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(UNUSABLE, format!("cannot write to stdout: {error}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
