//! The store of `memory` durability: for simulation, it proves nothing about bytes.
//!
//! **Invariant**: an append is settled before the call that made it returns, with no lock held, so
//! that whoever is told may append again at once. Frames older than a session's last complete
//! snapshot are dropped: memory grows with the sessions and what their replays need.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use dashmap::DashMap;

use super::store::{
    Append, FrameKind, Head, HistoryPage, Load, NoPermit, Payload, Permit, Purpose, RecoveryReport,
    Replay, Store, StoredFrame, Tickets,
};
use crate::config::StoreConfig;
use crate::error::{Code, Fault};
use crate::protocol::hash::IdHash;
use crate::protocol::{SessionId, Timestamp};

/// Journals in memory. They end with the store.
pub struct MemoryStore {
    journals: DashMap<SessionId, Journal, IdHash>,
    frame_max: usize,
    next_position: AtomicU64,
    closed: AtomicBool,
}

/// One session's journal, from its last complete snapshot on.
#[derive(Default)]
struct Journal {
    load: u64,
    told: Told,
    last_ticket: u64,
    snapshot: Vec<Vec<u8>>,
    frames: Vec<Frame>,
    newest: Option<(u64, bool)>,
    /// Position of the last frame that was dropped, or of the snapshot.
    before_first: Option<u64>,
}

/// Who is told of a load's tickets.
#[derive(Default)]
enum Told {
    #[default]
    Nobody,
    Living(Arc<dyn Tickets>),
    /// The load has ended; late appends are refused through the one who may still be there.
    Ended(Weak<dyn Tickets>),
}

struct Frame {
    position: u64,
    pending: bool,
    time: Timestamp,
    payload: Vec<u8>,
}

impl MemoryStore {
    /// A store without sessions. Of `config` it heeds `frame_max`.
    pub fn new(config: &StoreConfig) -> Self {
        MemoryStore {
            journals: DashMap::default(),
            frame_max: config.frame_max,
            next_position: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// Positions rise along each session's chain; a frame takes up its bytes and one.
    fn place(&self, payload: &[u8]) -> u64 {
        self.next_position.fetch_add(payload.len() as u64 + 1, Ordering::Relaxed)
    }

    fn check(&self, permit: &Permit, append: &Append) {
        assert!(append.payload.len() <= permit.bytes, "an append is larger than its permit");
        let frames = append.payload.frames();
        let fits = frames.iter().all(|frame| frame.len() <= self.frame_max);
        assert!(fits, "a payload is larger than a frame");
        assert!(!frames.is_empty(), "a snapshot has a part");
    }
}

fn ended() -> Fault {
    Fault::new(Code::Closed, "this load of the session has ended")
}

fn closed() -> Fault {
    Fault::new(Code::Closed, "the store is closed")
}

impl Journal {
    fn is_living(&self, load: Load) -> bool {
        self.load == load.number && matches!(self.told, Told::Living(_))
    }

    fn tickets(&self, load: Load) -> Option<Arc<dyn Tickets>> {
        match &self.told {
            Told::Living(tickets) if self.load == load.number => Some(Arc::clone(tickets)),
            Told::Ended(tickets) if self.load == load.number => tickets.upgrade(),
            Told::Living(_) | Told::Ended(_) | Told::Nobody => None,
        }
    }

    fn write(&mut self, store: &MemoryStore, append: Append) {
        let Append { payload, pending, time, .. } = append;
        match payload {
            Payload::Snapshot(parts) => {
                let positions = parts.iter().map(|part| store.place(part));
                self.before_first = positions.last();
                self.newest = self.before_first.map(|position| (position, pending));
                self.frames = Vec::new();
                self.snapshot = parts.iter().map(|part| part.to_vec()).collect();
            }
            Payload::Events(frame) => {
                let position = store.place(&frame);
                self.newest = Some((position, pending));
                // What is kept does not hold on to the buffer it came in.
                let payload = frame.to_vec();
                self.frames.push(Frame { position, pending, time, payload });
            }
        }
    }

    fn stored(&self, session: SessionId, index: usize) -> Option<StoredFrame> {
        let frame = self.frames.get(index)?;
        let before = index.checked_sub(1).and_then(|before| self.frames.get(before));
        Some(StoredFrame {
            position: frame.position,
            run: 1,
            previous: before.map(|frame| frame.position).or(self.before_first),
            session,
            kind: FrameKind::Events,
            pending: frame.pending,
            time: frame.time,
            proved: true,
            payload: frame.payload.clone(),
        })
    }

    fn bytes(&self) -> usize {
        let frames = self.frames.iter().map(|frame| &frame.payload);
        self.snapshot.iter().chain(frames).map(Vec::len).sum()
    }
}

impl Store for MemoryStore {
    fn heads(&self) -> Vec<Head> {
        let head = |(session, newest): (SessionId, Option<(u64, bool)>)| {
            let (position, pending) = newest?;
            Some(Head { session, position, pending, quarantined: false })
        };
        self.journals.iter().filter_map(|entry| head((*entry.key(), entry.newest))).collect()
    }

    fn begin(&self, session: SessionId, tickets: Arc<dyn Tickets>) -> Result<Load, Fault> {
        if self.closed.load(Ordering::Acquire) {
            return Err(closed());
        }
        let mut journal = self.journals.entry(session).or_default();
        assert!(!matches!(journal.told, Told::Living(_)), "the load before has not ended");
        journal.load += 1;
        journal.last_ticket = 0;
        journal.told = Told::Living(tickets);
        Ok(Load { session, number: journal.load })
    }

    fn replay(&self, session: SessionId) -> Result<Replay, Fault> {
        let Some(journal) = self.journals.get(&session) else { return Ok(Replay::default()) };
        let frames = 0..journal.frames.len();
        Ok(Replay {
            snapshot: journal.snapshot.clone(),
            frames: frames.filter_map(|index| journal.stored(session, index)).collect(),
        })
    }

    /// There is always room: an append is settled at once.
    fn permit(&self, load: Load, bytes: usize, _: Purpose) -> Result<Permit, NoPermit> {
        if self.closed.load(Ordering::Acquire) {
            return Err(NoPermit::Fault(closed()));
        }
        match self.journals.get(&load.session) {
            Some(journal) if journal.is_living(load) => Ok(Permit::unbounded(load, bytes)),
            Some(_) | None => Err(NoPermit::Fault(ended())),
        }
    }

    fn append(&self, permit: Permit, append: Append) {
        self.check(&permit, &append);
        let (load, ticket) = (permit.load, append.ticket);
        let Some(mut journal) = self.journals.get_mut(&load.session) else { return };
        let Some(tickets) = journal.tickets(load) else { return };
        let outcome = if self.closed.load(Ordering::Acquire) {
            Err(closed())
        } else if journal.is_living(load) {
            assert!(ticket == journal.last_ticket + 1, "tickets rise by one with each append");
            journal.last_ticket = ticket;
            journal.write(self, append);
            Ok(())
        } else {
            Err(ended())
        };
        drop(journal);
        drop(permit);
        tickets.settled(load.number, ticket, outcome);
    }

    fn urge(&self) {}

    fn end(&self, load: Load, ended: Box<dyn FnOnce() + Send>) {
        if let Some(mut journal) = self.journals.get_mut(&load.session)
            && let Told::Living(tickets) = &journal.told
            && journal.load == load.number
        {
            // The last one may run its owner's drop: after the lock is released.
            let tickets = Arc::clone(tickets);
            journal.told = Told::Ended(Arc::downgrade(&tickets));
            drop(journal);
        }
        ended();
    }

    fn history(
        &self,
        session: SessionId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<HistoryPage, Fault> {
        let Some(journal) = self.journals.get(&session) else { return Ok(HistoryPage::default()) };
        let before = before.unwrap_or(u64::MAX);
        let end = journal.frames.partition_point(|frame| frame.position < before);
        let start = end.saturating_sub(limit);
        let page = (start..end).rev().filter_map(|index| journal.stored(session, index));
        let next = journal.frames.get(start).map(|frame| frame.position);
        Ok(HistoryPage { frames: page.collect(), next: next.filter(|_| start > 0) })
    }

    fn recovery(&self) -> RecoveryReport {
        RecoveryReport { run: 1, ..RecoveryReport::default() }
    }

    fn used_bytes(&self) -> u64 {
        self.journals.iter().map(|journal| journal.bytes() as u64).sum()
    }

    fn fault(&self) -> Option<Fault> {
        self.closed.load(Ordering::Acquire).then(closed)
    }

    fn close(&self) -> Result<(), Fault> {
        self.closed.store(true, Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use bytes::Bytes;
    use uuid::Uuid;

    use super::*;
    use crate::persist::store::Urgency;

    /// Notes what it is told and, while it has any, appends what it was given from inside.
    #[derive(Default)]
    struct Told {
        outcomes: Mutex<Vec<(u64, u64, Option<Code>)>>,
        more: Mutex<Option<(Arc<MemoryStore>, Load, u64)>>,
    }

    impl Tickets for Told {
        fn settled(&self, load: u64, ticket: u64, outcome: Result<(), Fault>) {
            let code = outcome.err().map(|fault| fault.code);
            self.outcomes.lock().unwrap().push((load, ticket, code));
            let more = self.more.lock().unwrap().clone();
            if let Some((store, load, _)) = more.filter(|(_, _, last)| ticket < *last) {
                append(&store, load, ticket + 1, b"more");
            }
        }
        fn room(&self) {}
    }

    fn session(n: u128) -> SessionId {
        SessionId::new(Uuid::from_u128(n))
    }

    fn appends(store: &MemoryStore, load: Load, append: Append) {
        let bytes = append.payload.len();
        store.append(store.permit(load, bytes, Purpose::Send).unwrap(), append);
    }

    fn frame(ticket: u64, payload: &[u8]) -> Append {
        Append {
            ticket,
            payload: Payload::Events(Bytes::copy_from_slice(payload)),
            pending: ticket.is_multiple_of(2),
            urgency: Urgency::Lazy,
            time: Timestamp(ticket),
        }
    }

    fn append(store: &MemoryStore, load: Load, ticket: u64, payload: &[u8]) {
        appends(store, load, frame(ticket, payload));
    }

    fn payloads(frames: &[StoredFrame]) -> Vec<&[u8]> {
        frames.iter().map(|frame| frame.payload.as_slice()).collect()
    }

    #[test]
    fn an_append_is_settled_at_once_and_whoever_is_told_may_append_again() {
        let store = Arc::new(MemoryStore::new(&StoreConfig::default()));
        let told = Arc::new(Told::default());
        let load = store.begin(session(1), Arc::clone(&told) as _).unwrap();
        *told.more.lock().unwrap() = Some((Arc::clone(&store), load, 4));
        append(&store, load, 1, b"first");
        let outcomes = told.outcomes.lock().unwrap().clone();
        assert_eq!(outcomes, [(1, 1, None), (1, 2, None), (1, 3, None), (1, 4, None)]);
        *told.more.lock().unwrap() = None;
        assert_eq!(store.replay(session(1)).unwrap().frames.len(), 4);
    }

    #[test]
    fn a_replay_begins_at_the_last_snapshot_and_older_frames_are_dropped() {
        let store = MemoryStore::new(&StoreConfig::default());
        let load = store.begin(session(1), Arc::new(Told::default())).unwrap();
        append(&store, load, 1, b"old");
        let parts = vec![b"state 1".to_vec(), b"state 2".to_vec()];
        let payload = Payload::Snapshot(parts.iter().cloned().map(Bytes::from).collect());
        let snapshot = Append { payload, ..frame(2, b"") };
        appends(&store, load, snapshot);
        append(&store, load, 3, b"new");
        let replay = store.replay(session(1)).unwrap();
        assert_eq!((replay.snapshot, payloads(&replay.frames)), (parts, vec![&b"new"[..]]));
        assert!(replay.frames[0].previous < Some(replay.frames[0].position));
        assert_eq!(store.used_bytes(), 17);
    }

    #[test]
    fn heads_are_of_sessions_with_frames_and_follow_the_newest() {
        let store = MemoryStore::new(&StoreConfig::default());
        let load = store.begin(session(1), Arc::new(Told::default())).unwrap();
        store.begin(session(2), Arc::new(Told::default())).unwrap();
        assert_eq!(store.heads(), []);
        append(&store, load, 1, b"a");
        assert!(!store.heads()[0].pending);
        append(&store, load, 2, b"b");
        let heads = store.heads();
        let newest = store.replay(session(1)).unwrap().frames.pop().unwrap();
        assert_eq!((heads.len(), heads[0].position), (1, newest.position));
        assert!(heads[0].pending && newest.pending);
        assert!(store.replay(session(2)).unwrap().frames.is_empty());
    }

    #[test]
    fn history_goes_backwards_page_by_page() {
        let store = MemoryStore::new(&StoreConfig::default());
        let load = store.begin(session(1), Arc::new(Told::default())).unwrap();
        for ticket in 1..=5 {
            append(&store, load, ticket, format!("{ticket}").as_bytes());
        }
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let page = store.history(session(1), before, 2).unwrap();
            seen.extend(page.frames);
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(payloads(&seen), [b"5", b"4", b"3", b"2", b"1"]);
        assert_eq!(seen[4].previous, None);
    }

    #[test]
    fn nothing_of_an_ended_load_is_written_and_the_next_load_has_another_number() {
        let store = MemoryStore::new(&StoreConfig::default());
        let told = Arc::new(Told::default());
        let load = store.begin(session(1), Arc::clone(&told) as _).unwrap();
        let late = store.permit(load, 4, Purpose::Send).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&over);
        store.end(load, Box::new(move || flag.store(true, Ordering::Relaxed)));
        assert!(over.load(Ordering::Relaxed));
        assert!(matches!(store.permit(load, 4, Purpose::Send), Err(NoPermit::Fault(_))));
        store.append(late, frame(1, b"late"));
        assert_eq!(*told.outcomes.lock().unwrap(), [(1, 1, Some(Code::Closed))]);
        let next = store.begin(session(1), Arc::new(Told::default())).unwrap();
        assert_eq!(next.number, load.number + 1);
        assert!(store.replay(session(1)).unwrap().frames.is_empty());
    }

    #[test]
    fn a_closed_store_refuses_and_still_reads() {
        let store = MemoryStore::new(&StoreConfig::default());
        let told = Arc::new(Told::default());
        let load = store.begin(session(1), Arc::clone(&told) as _).unwrap();
        append(&store, load, 1, b"a");
        let late = store.permit(load, 4, Purpose::Send).unwrap();
        store.close().unwrap();
        store.append(late, frame(2, b"late"));
        assert_eq!(told.outcomes.lock().unwrap()[1], (1, 2, Some(Code::Closed)));
        assert_eq!(store.fault().unwrap().code, Code::Closed);
        assert_eq!(store.replay(session(1)).unwrap().frames.len(), 1);
    }

    #[test]
    #[should_panic(expected = "an append is larger than its permit")]
    fn an_append_over_its_permit_is_a_bug_of_the_caller() {
        let store = MemoryStore::new(&StoreConfig::default());
        let load = store.begin(session(1), Arc::new(Told::default())).unwrap();
        store.append(store.permit(load, 1, Purpose::Send).unwrap(), frame(1, b"larger"));
    }
}
