//! Shows how far a run is, on stderr.
//!
//! **Boundary**: a bar on a terminal, a plain line now and then anywhere else.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use callboard::sim::runner::Told;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Between two plain lines.
const PLAIN_EVERY: Duration = Duration::from_secs(5);

/// Whoever is told of progress.
pub(crate) enum Progress {
    Bar(ProgressBar),
    Plain { since: Cell<Instant> },
}

impl Progress {
    pub(crate) fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Progress::Plain { since: Cell::new(Instant::now()) };
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        Progress::Bar(bar)
    }

    pub(crate) fn tell(&self, told: Told) {
        match self {
            Progress::Bar(bar) => draw(bar, told),
            Progress::Plain { since } if since.get().elapsed() >= PLAIN_EVERY => {
                since.set(Instant::now());
                eprintln!("callboard: {}", text(told));
            }
            Progress::Plain { .. } => {}
        }
    }

    /// The run is over: the bar goes.
    pub(crate) fn end(&self) {
        if let Progress::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn draw(bar: &ProgressBar, told: Told) {
    let template = match told.total {
        Some(_) => "{bar:40} {pos}/{len} sent, {msg}, {elapsed}",
        None => "{spinner} {pos} sent, {msg}, {elapsed}",
    };
    if bar.length() != told.total || bar.position() == 0 {
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        if let Some(total) = told.total {
            bar.set_length(total);
        }
    }
    bar.set_message(format!("{} handled", told.handled));
    bar.set_position(told.queued);
}

fn text(Told { total, queued, handled }: Told) -> String {
    match total {
        Some(total) => format!("{queued} of {total} sent, {handled} handled"),
        None => format!("{queued} sent, {handled} handled"),
    }
}
