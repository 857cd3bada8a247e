//! What the process that keeps the clock and the one that runs the bus say to each other, a line
//! each.
//!
//! **Invariant**: a line is whole or ends the conversation. Both are the same program, so the form
//! is nobody else's and may change.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};

use super::count::Totals;
use super::desk::News;
use super::gauge::Stage;
use super::order::Order;
use super::plan::Plan;
use crate::config::{History, StoreConfig};
use crate::sim::profile::JournalOptions;

/// Lines that are handed over in one write, at most.
const LINES_AT_ONCE: usize = 1_024;

/// The first line to the process that runs the bus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Assignment {
    pub(super) data: PathBuf,
    /// The load that the directory belongs to.
    pub(super) name: String,
    pub(super) plan: Plan,
    segment_bytes: u64,
    heads_every: u64,
    snapshot_every: u64,
    history: History,
}

impl Assignment {
    pub(super) fn new(data: PathBuf, name: String, plan: Plan, store: &StoreConfig) -> Self {
        let StoreConfig { segment_bytes, heads_every, snapshot_every, history, .. } = *store;
        Assignment { data, name, plan, segment_bytes, heads_every, snapshot_every, history }
    }

    pub(super) fn options(&self) -> JournalOptions {
        JournalOptions {
            durability: self.plan.durability,
            segment_bytes: Some(self.segment_bytes),
            heads_every: Some(self.heads_every),
            snapshot_every: Some(self.snapshot_every),
            history: self.history,
        }
    }
}

/// A later line to the process that runs the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    Order(Order),
    /// Nothing more is sent: wait until all is quiet, count, stop.
    End,
}

impl Ask {
    pub(super) fn write(&self, line: &mut String) {
        match self {
            Ask::Order(order) => order.write(line),
            Ask::End => line.push_str("end"),
        }
        line.push('\n');
    }

    pub(super) fn read(line: &str) -> Option<Ask> {
        match line {
            "end" => Some(Ask::End),
            order => Order::read(order).map(Ask::Order),
        }
    }
}

/// A line from the process that runs the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tell {
    /// What a client has in its journal.
    Queued {
        client: u32,
        count: u64,
    },
    /// Nothing is pending, and orders may come.
    Ready,
    News(News),
    /// The last line: what the sessions' journals hold.
    Totals(Totals),
}

impl Tell {
    pub(super) fn write(&self, line: &mut String) {
        let said = |line: &mut String, word: &str, order: &Order| {
            line.push_str(word);
            order.write(line);
        };
        match self {
            Tell::Queued { client, count } => line.push_str(&format!("queued {client} {count}")),
            Tell::Ready => line.push_str("ready"),
            Tell::News(News::Reached(Stage::Receipt, order)) => said(line, "r ", order),
            Tell::News(News::Reached(Stage::Accepted, order)) => said(line, "a ", order),
            Tell::News(News::Reached(Stage::Handled, order)) => said(line, "h ", order),
            Tell::News(News::Dead(order)) => said(line, "d ", order),
            Tell::News(News::Failed(order, code)) => said(line, &format!("e {code} "), order),
            Tell::Totals(Totals { queued, accepted, handled, refused, dead }) => {
                line.push_str(&format!("totals {queued} {accepted} {handled} {refused} {dead}"));
            }
        }
        line.push('\n');
    }

    pub(super) fn read(line: &str) -> Option<Tell> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let order = || Order::read(rest);
        let reached = |stage| Some(Tell::News(News::Reached(stage, order()?)));
        match word {
            "ready" => Some(Tell::Ready),
            "r" => reached(Stage::Receipt),
            "a" => reached(Stage::Accepted),
            "h" => reached(Stage::Handled),
            "d" => Some(Tell::News(News::Dead(order()?))),
            "e" => {
                let (code, order) = rest.split_once(' ')?;
                Some(Tell::News(News::Failed(Order::read(order)?, code.to_owned())))
            }
            "queued" => {
                let (client, count) = rest.split_once(' ')?;
                Some(Tell::Queued { client: client.parse().ok()?, count: count.parse().ok()? })
            }
            "totals" => {
                let numbers = rest.split(' ').map(|word| word.parse().ok());
                let numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
                let [queued, accepted, handled, refused, dead] = numbers[..] else { return None };
                Some(Tell::Totals(Totals { queued, accepted, handled, refused, dead }))
            }
            _ => None,
        }
    }
}

/// Asks the process that runs the bus.
#[derive(Clone)]
pub(super) struct Asks(Sender<Ask>);

impl Asks {
    /// Writes to `to` from a thread of its own; the thread ends when nobody asks any more, or when
    /// nobody reads.
    pub(super) fn start(to: impl Write + Send + 'static) -> Self {
        let (asks, asked) = channel();
        write_from(asked, to, |ask: &Ask, line| {
            ask.write(line);
            false
        });
        Asks(asks)
    }

    /// Asks nobody; the lines can be looked at once all asks are dropped.
    #[cfg(test)]
    pub(super) fn collect() -> (Self, impl FnOnce() -> Vec<String>) {
        let (asks, asked) = channel::<Ask>();
        let lines = move || {
            let lines = asked.iter().map(|ask| {
                let mut line = String::new();
                ask.write(&mut line);
                line.trim_end().to_owned()
            });
            lines.collect()
        };
        (Asks(asks), lines)
    }

    pub(super) fn order(&self, order: Order) {
        // Who is gone gets the order again when it is back.
        self.0.send(Ask::Order(order)).unwrap_or_default();
    }

    pub(super) fn end(&self) {
        self.0.send(Ask::End).unwrap_or_default();
    }
}

/// Tells the process that keeps the clock.
#[derive(Clone)]
pub(super) struct Tells(Sender<Tell>);

impl Tells {
    /// Writes to `to` from a thread of its own, which ends after the last line.
    pub(super) fn start(to: impl Write + Send + 'static) -> (Self, JoinHandle<()>) {
        let (tells, told) = channel();
        let writer = write_from(told, to, |tell: &Tell, line| {
            tell.write(line);
            matches!(tell, Tell::Totals(_))
        });
        (Tells(tells), writer)
    }

    pub(super) fn news(&self, news: News) {
        self.tell(Tell::News(news));
    }

    pub(super) fn tell(&self, tell: Tell) {
        // Where nobody listens the process is about to end.
        drop(self.0.send(tell));
    }
}

/// Writes whatever waits at once, line by line, up to the one that `write` calls the last.
fn write_from<T: Send + 'static>(
    lines: Receiver<T>,
    mut to: impl Write + Send + 'static,
    write: impl Fn(&T, &mut String) -> bool + Send + 'static,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut text = String::new();
        while let Ok(first) = lines.recv() {
            text.clear();
            let mut is_last = write(&first, &mut text);
            for line in lines.try_iter().take(LINES_AT_ONCE) {
                is_last |= write(&line, &mut text);
            }
            if to.write_all(text.as_bytes()).and_then(|()| to.flush()).is_err() || is_last {
                return;
            }
        }
    })
}

/// Gives each whole line until the other side is gone.
pub(super) fn read_lines(mut from: impl BufRead, mut each: impl FnMut(&str)) {
    let mut line = String::new();
    loop {
        line.clear();
        match from.read_line(&mut line) {
            Ok(read) if read > 0 && line.ends_with('\n') => each(line.trim_end()),
            Ok(_) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_reads_back() {
        let order = Order { client: 3, number: 4, intended: 5, started: 6 };
        let totals = Totals { queued: 5, accepted: 4, handled: 3, refused: 2, dead: 1 };
        let reached = |stage| Tell::News(News::Reached(stage, order));
        for tell in [
            Tell::Queued { client: 3, count: 4 },
            Tell::Ready,
            reached(Stage::Receipt),
            reached(Stage::Accepted),
            reached(Stage::Handled),
            Tell::News(News::Dead(order)),
            Tell::News(News::Failed(order, "MAILBOX_FULL".to_owned())),
            Tell::Totals(totals),
        ] {
            let mut line = String::new();
            tell.write(&mut line);
            assert_eq!(Tell::read(line.trim_end()), Some(tell));
        }
        for ask in [Ask::Order(order), Ask::End] {
            let mut line = String::new();
            ask.write(&mut line);
            assert_eq!(Ask::read(line.trim_end()), Some(ask));
        }
        assert_eq!(Tell::read("hello"), None);
    }

    #[test]
    fn a_line_that_a_kill_cut_short_is_not_read() {
        let mut read = Vec::new();
        read_lines(&b"ready\nr 1 2 3 4\nr 1 2 3"[..], |line| read.push(line.to_owned()));
        assert_eq!(read, ["ready", "r 1 2 3 4"]);
    }
}
