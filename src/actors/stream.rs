//! The supervisor's own stream: append, wait, snapshot, read back.
//!
//! **Invariant**: what [`Stream::append`] gave back as done is on disk; after a fault the stream is
//! read back before anything else is appended, so that the graph in memory is what is on disk.

use std::sync::Arc;

use tokio::sync::{Notify, watch};

use crate::config::StoreConfig;
use crate::error::{Code, Fault, Refused};
use crate::persist::store::{
    Append, Load, NoPermit, Payload, Permit, Purpose, Replay, Store, Tickets, Urgency,
};
use crate::protocol::supervisor::{Event, Graph};
use crate::protocol::{SessionId, Timestamp};

/// One loading of the supervisor's stream.
pub(crate) struct Stream {
    store: Arc<dyn Store>,
    load: Load,
    told: Arc<Told>,
    ticket: u64,
    /// Frames and bytes since the last snapshot, and that snapshot's bytes.
    since: (u64, usize, usize),
    snapshot_every: u64,
    frame_max: usize,
}

/// A fact as it stands in a frame, which it fits.
pub(crate) struct Written(Vec<u8>);

/// What a frame adds to a fact that is alone in it.
const ARRAY_BYTES: usize = 2;

/// What the committer said last.
struct Told {
    settled: watch::Sender<(u64, Option<Fault>)>,
    room: Notify,
}

impl Tickets for Told {
    fn settled(&self, _load: u64, ticket: u64, outcome: Result<(), Fault>) {
        self.settled.send_modify(|(upto, fault)| match outcome {
            Ok(()) => *upto = (*upto).max(ticket),
            Err(failed) => *fault = Some(failed),
        });
    }

    fn room(&self) {
        self.room.notify_waiters();
    }
}

/// Rebuilds the graph from what the store holds.
///
/// # Errors
/// `JOURNAL_CORRUPT` when a frame cannot be read as events, or an event cannot follow.
pub(crate) fn fold(replay: &Replay) -> Result<Graph, Fault> {
    let mut graph = match replay.snapshot.is_empty() {
        true => Graph::default(),
        false => serde_json::from_slice(&replay.snapshot.concat()).map_err(|e| unreadable(&e))?,
    };
    for frame in &replay.frames {
        let events: Vec<Event> =
            serde_json::from_slice(&frame.payload).map_err(|e| unreadable(&e))?;
        for event in &events {
            graph.apply(event).map_err(|e| unreadable(&e))?;
        }
    }
    Ok(graph)
}

fn unreadable(error: &dyn std::fmt::Display) -> Fault {
    let text = format!("the supervisor's stream cannot be read: {error}; the directory needs care");
    Fault::new(Code::JournalCorrupt, text)
}

impl Stream {
    /// *Blocking.* Begins a load and reads the graph.
    ///
    /// # Errors
    /// As [`Store::begin`], [`Store::replay`] and [`fold`].
    pub(crate) fn open(
        store: Arc<dyn Store>,
        config: &StoreConfig,
    ) -> Result<(Self, Graph), Fault> {
        let told = Arc::new(Told { settled: watch::Sender::new((0, None)), room: Notify::new() });
        let tickets: Arc<dyn Tickets> = Arc::clone(&told) as Arc<dyn Tickets>;
        let load = store.begin(SessionId::SUPERVISOR, tickets)?;
        let replay = store.replay(SessionId::SUPERVISOR)?;
        let graph = fold(&replay)?;
        let bytes = replay.frames.iter().map(|frame| frame.payload.len()).sum();
        let snapshot = replay.snapshot.iter().map(Vec::len).sum();
        let stream = Stream {
            store,
            load,
            told,
            ticket: 0,
            since: (replay.frames.len() as u64, bytes, snapshot),
            snapshot_every: config.snapshot_every,
            frame_max: config.frame_max,
        };
        Ok((stream, graph))
    }

    /// A fact as it is appended.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when it does not fit a frame: it can never be recorded.
    pub(crate) fn written(&self, event: &Event) -> Result<Written, Refused> {
        let text = serde_json::to_vec(event);
        let text = text.map_err(|e| Refused::new(Code::InvalidArgument, e.to_string()))?;
        let bytes = text.len() + ARRAY_BYTES;
        if bytes > self.frame_max {
            let (limit, bytes) = (self.frame_max as u64, bytes as u64);
            let text = "what is to be recorded does not fit a frame of the journal";
            return Err(Refused::over(Code::InvalidArgument, text, limit, bytes));
        }
        Ok(Written(text))
    }

    /// Appends facts and waits until they are on disk; more than one frame where they do not fit
    /// one, in order.
    ///
    /// # Errors
    /// The store's fault. Whether the facts are on disk is unknown then: read the stream back.
    pub(crate) async fn append(&mut self, facts: &[Written], now: Timestamp) -> Result<(), Fault> {
        let mut first = 0;
        while first < facts.len() {
            let rest = facts.get(first..).unwrap_or_default();
            let n_fitting = fitting(rest, self.frame_max);
            let payload = array(rest.get(..n_fitting).unwrap_or_default());
            self.since.0 += 1;
            self.since.1 += payload.len();
            self.hand_over(Payload::Events(payload.into()), Purpose::Settle, now).await?;
            first += n_fitting;
        }
        self.flushed().await
    }

    /// Appends a snapshot of the graph when the chain has grown long enough, or when asked.
    ///
    /// # Errors
    /// As [`Stream::append`].
    pub(crate) async fn snapshot(
        &mut self,
        graph: &Graph,
        asked: bool,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let (frames, bytes, last) = self.since;
        let long = frames >= self.snapshot_every && bytes >= last;
        if !long && !asked {
            return Ok(());
        }
        let text = serde_json::to_vec(graph);
        let text = text.map_err(|error| Fault::new(Code::NotDurable, error.to_string()))?;
        let part_max = self.frame_max / 2;
        let bytes = text.len();
        let purpose = if asked { Purpose::Clean } else { Purpose::Snapshot };
        self.hand_over(Payload::snapshot(text, part_max), purpose, now).await?;
        self.since = (0, 0, bytes);
        self.flushed().await
    }

    /// Whether something that was handed over is not on disk, so that this load has ended.
    pub(crate) fn has_failed(&self) -> bool {
        self.told.settled.borrow().1.is_some()
    }

    async fn hand_over(
        &mut self,
        payload: Payload,
        purpose: Purpose,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let permit = self.permit(payload.len(), purpose).await?;
        self.ticket += 1;
        let append = Append {
            ticket: self.ticket,
            payload,
            pending: false,
            urgency: Urgency::Now,
            time: now,
        };
        self.store.append(permit, append);
        Ok(())
    }

    async fn permit(&self, bytes: usize, purpose: Purpose) -> Result<Permit, Fault> {
        loop {
            let room = self.told.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            match self.store.permit(self.load, bytes, purpose) {
                Ok(permit) => return Ok(permit),
                Err(NoPermit::Fault(fault)) => return Err(fault),
                Err(NoPermit::Wait) => room.await,
            }
        }
    }

    async fn flushed(&self) -> Result<(), Fault> {
        let mut settled = self.told.settled.subscribe();
        let newest = self.ticket;
        let state = settled.wait_for(|(upto, fault)| *upto >= newest || fault.is_some()).await;
        let Ok(state) = state else {
            return Err(Fault::new(Code::NotDurable, "the store ended before it answered"));
        };
        match &state.1 {
            Some(fault) if state.0 < newest => Err(fault.clone()),
            Some(_) | None => Ok(()),
        }
    }

    /// The largest frame, in bytes.
    pub(crate) fn frame_max(&self) -> usize {
        self.frame_max
    }

    /// Ends this load; `ended` is called from the committer's thread.
    pub(crate) fn end(&self, ended: Box<dyn FnOnce() + Send>) {
        self.store.end(self.load, ended);
    }
}

/// How many of the texts fit one frame as an array; at least one.
fn fitting(facts: &[Written], frame_max: usize) -> usize {
    let mut bytes = 1;
    let n_fitting = facts.iter().take_while(|Written(text)| {
        bytes += text.len() + 1;
        bytes <= frame_max
    });
    n_fitting.count().max(1)
}

fn array(facts: &[Written]) -> Vec<u8> {
    let mut array = vec![b'['];
    for (place, Written(text)) in facts.iter().enumerate() {
        if place > 0 {
            array.push(b',');
        }
        array.extend(text);
    }
    array.push(b']');
    array
}
