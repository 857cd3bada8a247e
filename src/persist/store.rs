//! What a journal store promises to the life above it.
//!
//! **Invariant**: tickets of one load are settled in order, each once; after a load has ended
//! nothing more of it is written; a replay never shows a frame that a flush (in `sync`) has not
//! covered.
//!
//! One frame is one transaction of one session. The store assigns positions and back pointers when
//! it writes; callers name their frames by load and ticket.

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::Fault;
use crate::protocol::{SessionId, Timestamp};

/// One loading of one session: what an append is made under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Load {
    /// Whose frames.
    pub session: SessionId,
    /// Which loading; raised with each, never reused in one opening of the store.
    pub number: u64,
}

/// Who is told what became of a load's frames. Called from the committer's thread: must not block.
pub trait Tickets: Send + Sync + 'static {
    /// Every ticket of load `load` up to and including `ticket` is on disk as durable as the store
    /// promises, or, on a fault, `ticket` and all later ones of this load are not.
    fn settled(&self, load: u64, ticket: u64, outcome: Result<(), Fault>);
    /// A permit that was refused with [`NoPermit::Wait`] may be had now.
    fn room(&self);
}

/// Who is asked for snapshots by the cleaner. Called from the committer's thread: must not block.
pub trait SnapshotsWanted: Send + Sync + 'static {
    /// These sessions keep old segments from being freed: load them and append a snapshot.
    fn wanted(&self, sessions: Vec<SessionId>);
}

/// What a frame is for: who may use the log's reserves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// New work: refused first.
    Send,
    /// Work that settles what was promised: acceptances, acknowledgements, turns, outcomes.
    Settle,
    /// A snapshot, which keeps a replay short.
    Snapshot,
    /// A snapshot that the cleaner asked for: the last that is refused, since it makes room.
    Clean,
}

/// Room for one append: a slot in the queue, bytes, log space. Dropping it gives the room back.
pub struct Permit {
    /// The load it was given to.
    pub load: Load,
    /// The payload bytes it covers.
    pub bytes: usize,
    giver: Option<Arc<dyn Giver>>,
    charge: Charge,
}

/// What a permit was charged, as its giver counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Charge {
    /// Payload, in bytes.
    pub bytes: usize,
    /// Of the log that is ready, in bytes.
    pub log: u64,
}

/// Who gave a permit.
pub trait Giver: Any + Send + Sync {
    /// The permit was dropped, used or not.
    fn give_back(&self, charge: Charge);
}

impl Permit {
    /// A permit whose charge is given back when it is dropped, used or not.
    pub fn new(load: Load, bytes: usize, giver: Arc<dyn Giver>, charge: Charge) -> Self {
        Permit { load, bytes, giver: Some(giver), charge }
    }

    /// A permit of a store that has always room.
    pub fn unbounded(load: Load, bytes: usize) -> Self {
        Permit { load, bytes, giver: None, charge: Charge::default() }
    }

    /// Who gave it, where it is known to be a `G`.
    pub(crate) fn giver<G: Giver>(&self) -> Option<Arc<G>> {
        let giver: Arc<dyn Any + Send + Sync> = self.giver.clone()?;
        giver.downcast().ok()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(giver) = self.giver.take() {
            giver.give_back(self.charge);
        }
    }
}

/// Why there is no permit.
#[derive(Debug)]
pub enum NoPermit {
    /// The queue or this session's share is full; [`Tickets::room`] will be called.
    Wait,
    /// No log space (`STORE_FULL`), or none can be made ready for another reason
    /// (`STORE_READ_ONLY`, `STORE_UNUSABLE`); poisoned, or the load has ended.
    Fault(Fault),
}

/// When an append must be committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// With the next group.
    Now,
    /// With the next group that something else causes, after `lazy_commit` at the latest, or when
    /// [`Store::urge`] is called.
    Lazy,
}

/// What a payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// A JSON array of events.
    Events,
    /// Part `part` of `parts` (from 0) of the state after everything appended before part 0.
    Snapshot {
        /// Which part, from 0.
        part: u32,
        /// How many parts; the snapshot counts once the last is flushed.
        parts: u32,
    },
}

/// What one append writes. Slices of a larger buffer are welcome: nobody keeps them for long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// One frame: a JSON array of events.
    Events(Bytes),
    /// All parts of one snapshot, in order; at least one.
    Snapshot(Vec<Bytes>),
}

impl Payload {
    /// A snapshot in parts of at most `part_max` bytes.
    pub fn snapshot(state: Vec<u8>, part_max: usize) -> Self {
        let mut rest = Bytes::from(state);
        let mut parts = Vec::new();
        while rest.len() > part_max.max(1) {
            parts.push(rest.split_to(part_max.max(1)));
        }
        parts.push(rest);
        Payload::Snapshot(parts)
    }

    /// What each frame holds, in order.
    pub fn frames(&self) -> &[Bytes] {
        match self {
            Payload::Events(frame) => std::slice::from_ref(frame),
            Payload::Snapshot(parts) => parts,
        }
    }

    /// The length of all frames, in bytes.
    pub fn len(&self) -> usize {
        self.frames().iter().map(Bytes::len).sum()
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One append: one frame of events, or all parts of one snapshot.
pub struct Append {
    /// The caller's number for it; rises by one with each append of the load, from 1.
    pub ticket: u64,
    /// What is written; each frame is at most `frame_max` bytes.
    pub payload: Payload,
    /// Whether the session has pending work after this append.
    pub pending: bool,
    /// When it must be committed.
    pub urgency: Urgency,
    /// When it was decided.
    pub time: Timestamp,
}

/// A frame as it is read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFrame {
    /// Logical offset in the log.
    pub position: u64,
    /// The run that wrote it.
    pub run: u64,
    /// Position of the same session's frame before it.
    pub previous: Option<u64>,
    /// Whose.
    pub session: SessionId,
    /// What the payload is.
    pub kind: FrameKind,
    /// Whether the session had pending work after it.
    pub pending: bool,
    /// When it was decided.
    pub time: Timestamp,
    /// False when it lies above what is known to be flushed (read-only openings).
    pub proved: bool,
    /// The bytes.
    pub payload: Vec<u8>,
}

/// What a session is rebuilt from.
#[derive(Debug, Clone, Default)]
pub struct Replay {
    /// The payloads of the last complete snapshot's parts, in order; empty without one.
    pub snapshot: Vec<Vec<u8>>,
    /// Every frame of events after the position that the snapshot is the state of, oldest first.
    pub frames: Vec<StoredFrame>,
}

/// What is known of a session without reading its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Whose.
    pub session: SessionId,
    /// Position of its newest flushed frame.
    pub position: u64,
    /// Whether it had pending work after that frame.
    pub pending: bool,
    /// Whether damage keeps it from being replayed.
    pub quarantined: bool,
}

/// One page of a session's frames, newest first.
#[derive(Debug, Clone, Default)]
pub struct HistoryPage {
    /// The frames; snapshots are left out.
    pub frames: Vec<StoredFrame>,
    /// Where the next page begins; none at the journal's start, or where older segments were
    /// dropped.
    pub next: Option<u64>,
}

/// What opening the store did.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct RecoveryReport {
    /// The run of this opening.
    pub run: u64,
    /// Groups read after the saved heads.
    pub groups: u64,
    /// Frames in them.
    pub frames: u64,
    /// Bytes read from segments, by opening and by replays since.
    pub bytes_read: u64,
    /// Bytes of an unproved tail that were copied aside and cut.
    pub cut_bytes: u64,
    /// Sessions whose replay needs damaged frames.
    pub quarantined: Vec<SessionId>,
    /// Why the store is read-only, if it is.
    pub read_only: Option<String>,
}

/// A journal store. Calls marked *blocking* read files and are not made on an arbiter.
pub trait Store: Send + Sync + 'static {
    /// Every session with at least one flushed frame, in no order. The supervisor is one of them.
    fn heads(&self) -> Vec<Head>;

    /// Begins a load. The session's load before it must have ended.
    ///
    /// # Errors
    /// `JOURNAL_CORRUPT` for a quarantined session, `STORE_UNUSABLE` while the load before has not
    /// ended.
    fn begin(&self, session: SessionId, tickets: Arc<dyn Tickets>) -> Result<Load, Fault>;

    /// *Blocking.* What the session is rebuilt from, up to its flushed head; empty for a session
    /// without frames. Frames that it reads are pinned against the cleaner meanwhile.
    ///
    /// # Errors
    /// `JOURNAL_CORRUPT` when a needed frame is damaged (the session is quarantined from then on),
    /// `STORE_UNUSABLE` when the disk cannot be read. Absent and unreadable are never confused.
    fn replay(&self, session: SessionId) -> Result<Replay, Fault>;

    /// Asks for room for `bytes` of payload.
    ///
    /// # Errors
    /// See [`NoPermit`]; the caller's state is to stay untouched then.
    fn permit(&self, load: Load, bytes: usize, purpose: Purpose) -> Result<Permit, NoPermit>;

    /// Hands an append to the committer; never blocks. `permit.bytes` covers the payloads. Frames
    /// of a load that failed or is ending are refused through [`Tickets::settled`]; once its
    /// `ended` was called nobody is told any more, and they are dropped.
    ///
    /// # Panics
    /// When a payload is over `frame_max` or over the permit: a bug of the caller.
    fn append(&self, permit: Permit, append: Append);

    /// Something waits for an append that was handed over as lazy: commit now.
    fn urge(&self);

    /// Ends a load in the committer: appends handed over before are completed or failed, later
    /// ones are refused; then `ended` is called from the committer's thread.
    fn end(&self, load: Load, ended: Box<dyn FnOnce() + Send>);

    /// *Blocking.* Frames of a session, newest first, from `before` (exclusive) or from the head.
    ///
    /// # Errors
    /// As [`Store::replay`], and `INVALID_ARGUMENT` when `before` is where no frame can be read.
    fn history(
        &self,
        session: SessionId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<HistoryPage, Fault>;

    /// What opening did.
    fn recovery(&self) -> RecoveryReport;

    /// Bytes of log in use, without what is preallocated.
    fn used_bytes(&self) -> u64;

    /// Why nothing can be written any more, if so: poisoned or read-only.
    fn fault(&self) -> Option<Fault>;

    /// *Blocking.* Commits what was handed over, flushes, saves the heads, ends the committer and
    /// gives the lock back. Later appends are refused.
    ///
    /// # Errors
    /// The fault that kept it from flushing.
    fn close(&self) -> Result<(), Fault>;
}
