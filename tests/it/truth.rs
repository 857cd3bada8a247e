//! What a store was given and what it promised, and whether what it shows is that.
//!
//! **Invariant**: every payload is unique, so that a frame that comes back from the dead is seen.

use callboard::Code;
use callboard::persist::Store;
use callboard::persist::store::{FrameKind, Replay, StoredFrame};
use callboard::protocol::SessionId;

/// What was handed over and what was promised.
#[derive(Debug, Clone, Default)]
pub(crate) struct Truth {
    pub(crate) journals: Vec<Journal>,
    pub(crate) n_handed: u64,
    /// The run of the present opening, and the greatest one that anything was settled under.
    pub(crate) run: u64,
    pub(crate) run_settled: u64,
    /// Codes of refused permits and failed tickets.
    pub(crate) faults: Vec<Code>,
    pub(crate) violations: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Journal {
    pub(crate) events: Vec<Event>,
    pub(crate) load: u64,
    pub(crate) tickets: Vec<Handed>,
    pub(crate) n_settled: usize,
    pub(crate) failed: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) payload: Vec<u8>,
    /// Its place among all events handed over.
    pub(crate) order: u64,
    pub(crate) pending: bool,
    pub(crate) settled: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Handed {
    Event(usize),
    Snapshot,
}

/// What a store gives back of one session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Found {
    /// Events in the snapshot and after it.
    pub(crate) n_events: usize,
    pub(crate) snapshot: Vec<Vec<u8>>,
    pub(crate) frames: Vec<StoredFrame>,
}

pub(crate) fn session(seat: usize) -> SessionId {
    if seat == 0 {
        return SessionId::SUPERVISOR;
    }
    let mut bytes = [7; 16];
    bytes[15] = u8::try_from(seat).unwrap();
    SessionId::from_bytes(bytes)
}

/// A snapshot's parts: how many events it stands for, and a sum over them.
pub(crate) fn snapshot_of(events: &[Event], parts: usize) -> Vec<Vec<u8>> {
    let bytes = events.iter().flat_map(|event| &event.payload);
    let sum = bytes.fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    let part = |part| {
        let filler = "s".repeat(20 * part);
        format!(r#"{{"upto":{},"parts":{parts},"part":{part},"sum":{sum}{filler}}}"#, events.len())
    };
    (0..parts).map(|number| part(number).into_bytes()).collect()
}

fn number_after(text: &[u8], key: &str) -> Option<usize> {
    let text = std::str::from_utf8(text).ok()?;
    let rest = &text[text.find(key)? + key.len()..];
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

impl Truth {
    pub(crate) fn new(n_seats: usize) -> Self {
        Truth { journals: vec![Journal::default(); n_seats], ..Truth::default() }
    }

    /// Whether a replay of `seat` shows what was handed over: all that was settled, in order, with
    /// nothing changed, missing or added.
    pub(crate) fn judge(&self, seat: usize, replay: Replay, all: Promise) -> Result<Found, String> {
        let events = &self.journals[seat].events;
        let n_snapshot = match replay.snapshot.first() {
            None => 0,
            Some(part) => number_after(part, "\"upto\":").ok_or("a snapshot is no snapshot")?,
        };
        let known = events.get(..n_snapshot).ok_or("a snapshot knows more than was handed over")?;
        if n_snapshot > 0 && replay.snapshot != snapshot_of(known, replay.snapshot.len()) {
            return Err(format!("the snapshot of {n_snapshot} events is not the one handed over"));
        }
        let whole = replay.snapshot.first().map(|part| number_after(part, "\"parts\":"));
        if whole.is_some_and(|parts| parts != Some(replay.snapshot.len())) {
            return Err("a snapshot has another number of parts".into());
        }
        for (index, frame) in replay.frames.iter().enumerate() {
            let event = events.get(n_snapshot + index).ok_or_else(|| {
                let payload = String::from_utf8_lossy(&frame.payload);
                format!("frame {index} was never handed over or taken back: {payload:.60}")
            })?;
            let same = frame.payload == event.payload && frame.pending == event.pending;
            if !same || frame.kind != FrameKind::Events || frame.session != session(seat) {
                let (got, want) = (&frame.payload, &event.payload);
                let [got, want] = [got, want].map(|bytes| String::from_utf8_lossy(bytes));
                return Err(format!("event {} is {got:.60}, not {want:.60}", n_snapshot + index));
            }
        }
        let positions = replay.frames.windows(2);
        if positions.into_iter().any(|pair| pair[0].position >= pair[1].position) {
            return Err("positions do not rise".into());
        }
        let n_events = n_snapshot + replay.frames.len();
        let lost = events.iter().skip(n_events).filter(|event| event.settled).count();
        if lost > 0 && all == Promise::Settled {
            return Err(format!("{lost} settled events are lost after the first {n_events}"));
        }
        Ok(Found { n_events, snapshot: replay.snapshot, frames: replay.frames })
    }

    /// From now on a journal is what was found: what is above it may never come back.
    pub(crate) fn adopt(&mut self, seat: usize, found: &Found) {
        let journal = &mut self.journals[seat];
        journal.events.truncate(found.n_events);
        journal.events.iter_mut().for_each(|event| event.settled = true);
    }
}

/// What must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    Settled,
    /// A prefix of the whole log, of any length.
    Prefix,
}

/// Judges every session of a reopened store; the report names the session.
pub(crate) fn survey(
    store: &dyn Store,
    truth: &Truth,
    promise: Promise,
) -> Result<Vec<Found>, String> {
    let mut found = Vec::new();
    let heads = store.heads();
    for (seat, journal) in truth.journals.iter().enumerate() {
        let replay =
            store.replay(session(seat)).map_err(|fault| format!("seat {seat}: {fault}"))?;
        let here =
            truth.judge(seat, replay, promise).map_err(|text| format!("seat {seat}: {text}"))?;
        let head = heads.iter().find(|head| head.session == session(seat));
        let pending = here.n_events > 0 && journal.events[here.n_events - 1].pending;
        if head.map(|head| head.pending).unwrap_or_default() != pending {
            return Err(format!("seat {seat}: the head's pending is not {pending}"));
        }
        if let Some(frame) = here.frames.last()
            && head.is_none_or(|head| head.position < frame.position)
        {
            return Err(format!("seat {seat}: the head is not at the newest frame"));
        }
        found.push(here);
    }
    if promise == Promise::Prefix {
        prefix(truth, &found)?;
    }
    Ok(found)
}

fn prefix(truth: &Truth, found: &[Found]) -> Result<(), String> {
    let seats = || truth.journals.iter().zip(found);
    let kept = |(journal, here): (&Journal, &Found)| {
        journal.events.iter().take(here.n_events).map(|event| event.order).max()
    };
    let newest = seats().filter_map(kept).max().unwrap_or(0);
    for (seat, (journal, here)) in seats().enumerate() {
        let lost = journal.events.get(here.n_events);
        if lost.is_some_and(|event| event.order < newest) {
            return Err(format!("seat {seat}: lost an event older than event {newest}"));
        }
    }
    Ok(())
}

/// Judges every session's history, page by page from the newest event back: to its beginning if
/// it is `whole`, else at least over what the replay needs.
pub(crate) fn browse(
    store: &dyn Store,
    truth: &Truth,
    found: &[Found],
    whole: bool,
) -> Result<(), String> {
    for (seat, (journal, here)) in truth.journals.iter().zip(found).enumerate() {
        let (mut before, mut next) = (None, here.n_events);
        loop {
            let page = store.history(session(seat), before, 3);
            let page = page.map_err(|fault| format!("seat {seat}: history: {fault}"))?;
            for frame in &page.frames {
                next = next.checked_sub(1).ok_or("history goes on before the first event")?;
                if frame.payload != journal.events[next].payload {
                    return Err(format!("seat {seat}: history: event {next} is another one"));
                }
            }
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        if next > here.n_events - here.frames.len() || (whole && next > 0) {
            return Err(format!("seat {seat}: history ends at event {next}"));
        }
    }
    Ok(())
}
