//! Replays a trace: every person is a session, every line a message.
//!
//! **Invariant**: line k of a pair has number k, so what is left is known from the senders'
//! journals: no line is sent twice and none is left out, however often the process was killed.

use std::collections::{BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::crowd;
use super::meter::{Meter, line_body};
use super::runner::{self, End, Play, RunError, Stage};
use super::schedule::{Next, Schedule};
use super::seats::{Seat, Seats};
use super::trace::{Line, Trace, people};
use crate::agents;
use crate::bus::{Bus, Create, Origin, Receipt};
use crate::error::Error;
use crate::protocol::session::BodySpec;
use crate::protocol::{Draft, Label, SessionId, Workspace};

/// Lines under way at once: enough to fill a group while the one before it is flushed.
const UNDER_WAY: usize = 1_024;

/// The workspace of all sessions, and the group that links them.
const WORKSPACE: &str = "main";
const GROUP: &str = "trace";

/// What is to be replayed.
pub struct Replay {
    /// The trace.
    pub trace: Trace,
    /// How many of its lines, from the first; all if not set.
    pub limit: Option<u64>,
    /// The file, made once the bus is open, to which each receipt is appended as it is got, one
    /// line each: the line of the trace, the
    /// two people, the number for the pair, and the message's id.
    pub receipts: Option<PathBuf>,
}

/// Replays a trace until all is quiet.
///
/// # Errors
/// What the bus says: `WRONG_ORIGIN` for a data directory of something else, faults of the journal;
/// a receipt that could not be written
/// down, and sessions that cannot go on.
///
/// # Cancel safety
/// Dropped, it leaves the data directory as a kill would: the next replay goes on there.
pub async fn replay(replay: Replay, stage: Stage) -> Result<End, RunError> {
    let lines = replay.trace.first(replay.limit).to_vec();
    let line_max = lines.iter().map(|line| line.number).max().unwrap_or(0);
    let meter = Arc::new(Meter::of_lines(line_max));
    let hash = replay.trace.hash();
    let plan = Plan {
        origin: Origin { kind: "trace".to_owned(), hash },
        lines,
        receipts: (replay.receipts, None),
        meter: Arc::clone(&meter),
        sessions: HashMap::new(),
        schedule: Schedule::new(&[], &HashMap::new()),
    };
    runner::run(stage, meter, plan).await
}

/// The label of a person.
///
/// # Errors
/// None for a number; the type is that of a label.
pub fn label_of(person: u64) -> Result<Label, Error> {
    Ok(Label::new(&format!("p{person}"))?)
}

struct Plan {
    origin: Origin,
    lines: Vec<Line>,
    /// Where receipts go, and the file once it is open.
    receipts: (Option<PathBuf>, Option<File>),
    meter: Arc<Meter>,
    sessions: HashMap<u64, SessionId>,
    schedule: Schedule,
}

impl Play for Plan {
    fn origin(&self) -> Origin {
        self.origin.clone()
    }

    async fn prepare(&mut self, bus: &Bus) -> Result<(Option<u64>, u64), RunError> {
        self.open_receipts()?;
        self.sessions = made(bus, &people(&self.lines)).await?;
        let known = self.known_numbers(bus).await?;
        self.schedule = Schedule::new(&self.lines, &known);
        let n_left = self.schedule.n_left() as u64;
        if n_left > 0 {
            let members: Vec<SessionId> = self.sessions.values().copied().collect();
            bus.group(&Label::new(GROUP)?, &members).await?;
        }
        let total = self.lines.len() as u64;
        Ok((Some(total), total - n_left))
    }

    async fn send(&mut self, bus: &Bus) -> Result<(), RunError> {
        let mut calls = JoinSet::new();
        loop {
            while calls.len() < UNDER_WAY
                && let Some(next) = self.schedule.next()
            {
                let (from, draft) = self.addressed(next.line)?;
                self.meter.sending(next.line.number);
                let bus = bus.clone();
                calls.spawn(async move { Ok((next, bus.send_when_room(from, draft).await?)) });
            }
            let Some(answer) = calls.join_next().await else { return Ok(()) };
            let (next, receipt) = crowd::settled(answer)?;
            self.schedule.sent(next.lane);
            self.write_down(next, &receipt)?;
        }
    }
}

impl Plan {
    fn addressed(&self, line: Line) -> Result<(SessionId, Draft), Error> {
        let session = |person: u64| {
            self.sessions.get(&person).copied().ok_or(crate::error::Refused::not_found())
        };
        Ok((session(line.from)?, Draft::text(session(line.to)?, line_body(line.number))))
    }

    /// The last number given for each pair, from the senders' journals.
    async fn known_numbers(&self, bus: &Bus) -> Result<HashMap<(u64, u64), u64>, Error> {
        let persons: HashMap<SessionId, u64> =
            self.sessions.iter().map(|(person, id)| (*id, *person)).collect();
        let senders: BTreeSet<u64> = self.lines.iter().map(|line| line.from).collect();
        let senders = senders
            .into_iter()
            .filter_map(|person| self.sessions.get(&person).map(|id| (person, *id)));
        let numbers = crowd::for_each(senders, |(person, id)| {
            let bus = bus.clone();
            async move { Ok((person, bus.inspect(id).await?.numbers)) }
        });
        let mut known = HashMap::new();
        for (from, numbers) in numbers.await? {
            for (target, n) in numbers {
                if let Some(to) = persons.get(&target) {
                    known.insert((from, *to), n);
                }
            }
        }
        Ok(known)
    }

    fn open_receipts(&mut self) -> Result<(), RunError> {
        let (Some(path), file) = &mut self.receipts else { return Ok(()) };
        let opened = OpenOptions::new().append(true).create(true).open(&*path);
        let opened = opened.map_err(|error| RunError::Receipts { path: path.clone(), error });
        *file = Some(opened?);
        Ok(())
    }

    fn write_down(&mut self, next: Next, receipt: &Receipt) -> Result<(), RunError> {
        let Some(file) = &mut self.receipts.1 else { return Ok(()) };
        let Line { number, from, to, .. } = next.line;
        let text = format!("{number} {from} {to} {} {}\n", receipt.n, receipt.id);
        file.write_all(text.as_bytes()).map_err(RunError::Receipt)
    }
}

/// The session of each person; those that are missing are made.
async fn made(bus: &Bus, people: &BTreeSet<u64>) -> Result<HashMap<u64, SessionId>, Error> {
    let seats = Seats::read(bus).await?;
    let workspace = Workspace::new(WORKSPACE)?;
    let mut sessions = HashMap::with_capacity(people.len());
    let mut missing = Vec::new();
    for person in people {
        match seats.of(&label_of(*person)?)? {
            Seat::Taken(seated) => drop(sessions.insert(*person, seated.id)),
            Seat::Free(label) => missing.push((*person, label)),
        }
    }
    let made = crowd::for_each(missing, |(person, label)| {
        let body = BodySpec::Agent { name: agents::SINK.to_owned(), settings: None };
        let create = Create { label, workspace: Some(workspace.clone()), body };
        let bus = bus.clone();
        async move { Ok((person, bus.create(create).await?)) }
    });
    sessions.extend(made.await?);
    Ok(sessions)
}
