//! A session's inbox beside its actor: two lanes, the pending counter, the flushed ticket, the
//! phase. It is there whenever the session is loaded, or anything is on its way to it.
//!
//! **Invariant**: the control lane is never refused; the mail lane is bounded, and a sender that
//! was turned away is called when there is room. A push wakes the session, once until it has
//! looked. It is not storage: what matters is in a journal.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;

use super::control::{Control, Reply};
use super::outgoing::answer;
use super::proof::Proof;
use super::quiet::Unquiet;
use super::room::Room;
use super::wake::Queue;
use crate::config::Config;
use crate::error::Fault;
use crate::persist::store::Tickets;
use crate::protocol::session::{Created, Input, Verdict};
use crate::protocol::{Message, SessionId};

/// No round has this number.
const NEVER: u64 = u64::MAX;

/// The inbox cell of one session.
pub struct Cell {
    id: SessionId,
    me: Weak<Cell>,
    queue: Arc<Queue>,
    unquiet: Arc<Unquiet>,
    mail_max: usize,
    mail_bytes_max: usize,
    scheduled: AtomicBool,
    /// The arbiter's rounds when the session was woken and has not been drained since.
    woken_at: AtomicU64,
    lanes: Mutex<Lanes>,
    waker: Mutex<Option<Waker>>,
    phase: Mutex<Phase>,
    /// Opened without its agent from now on.
    failed: AtomicBool,
    /// It has failed, and that is recorded: what it has accepted is dead.
    for_good: AtomicBool,
    /// Raised when the ways to this session are revoked.
    epoch: AtomicU64,
    pub(super) room: Room,
    pub(super) proof: Proof,
}

/// What a session's actor is doing, seen from its arbiter. Only the arbiter changes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not in memory; the next push loads it.
    Cold,
    /// Being read and folded.
    Loading,
    /// Its actor runs.
    Live,
    /// Its actor is gone, its load is ending; what arrives waits.
    Draining,
    /// Its load has fallen; the supervisor decides.
    Fallen(Fault),
    /// Its journal cannot be read.
    Quarantined(Fault),
    /// The bus is closed.
    Stopped,
}

#[derive(Default)]
struct Lanes {
    control: VecDeque<Control>,
    mail: VecDeque<Mail>,
    n_mail: usize,
    mail_bytes: usize,
    turned_away: Vec<Arc<Cell>>,
    /// Whether this session counts as not quiet.
    unquiet: bool,
    shut: bool,
}

/// The order to make a session.
pub(super) struct Creation {
    pub(super) created: Created,
    pub(super) reply: Reply<()>,
}

/// A dispatch on its way.
pub(super) struct Mail {
    pub(super) from: Arc<Cell>,
    pub(super) first: u64,
    pub(super) messages: Vec<Arc<Message>>,
    pub(super) bytes: usize,
    pub(super) settled: u64,
    pub(super) verdict: Verdict,
}

impl Mail {
    /// `ended`: a session without its agent accepts nothing, whatever the way was granted for.
    pub(super) fn into_input(self, ended: bool) -> Input {
        let Mail { from, first, messages, settled, verdict, bytes: _ } = self;
        let verdict = if ended && verdict == Verdict::Allowed { Verdict::Closed } else { verdict };
        Input::Mail { from: from.id, first, messages, settled, verdict }
    }
}

impl std::fmt::Debug for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cell").field(&self.id).finish()
    }
}

impl Cell {
    pub(super) fn new(
        id: SessionId,
        queue: Arc<Queue>,
        unquiet: Arc<Unquiet>,
        config: &Config,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Cell {
            id,
            me: Weak::clone(me),
            queue,
            unquiet,
            mail_max: config.life.cell_max,
            mail_bytes_max: config.life.cell_bytes_max,
            scheduled: AtomicBool::new(false),
            woken_at: AtomicU64::new(NEVER),
            lanes: Mutex::default(),
            waker: Mutex::new(None),
            phase: Mutex::new(Phase::Cold),
            failed: AtomicBool::new(false),
            for_good: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            room: Room::new(config.limits.pending_max),
            proof: Proof::default(),
        })
    }

    /// Whose inbox this is.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Mail that is queued for this session, or accepted and not yet taken by a turn.
    pub fn n_pending(&self) -> u64 {
        self.room.count()
    }

    /// Adds mail that is pending already, when the counters are rebuilt before sends are admitted.
    pub fn add_pending(&self, count: u64) {
        self.room.add(count);
    }

    /// Tells the session something. A session that is not loaded is loaded first.
    pub fn push(&self, control: Control) {
        let mut lanes = self.lanes();
        if lanes.shut {
            return;
        }
        self.count_unquiet(&mut lanes);
        lanes.control.push_back(control);
        drop(lanes);
        self.wake();
    }

    /// Puts back, in front of what came since, what was taken and not looked at.
    pub(super) fn put_back(&self, controls: Vec<Control>) {
        if controls.is_empty() {
            return;
        }
        let mut lanes = self.lanes();
        if lanes.shut {
            return;
        }
        self.count_unquiet(&mut lanes);
        for control in controls.into_iter().rev() {
            lanes.control.push_front(control);
        }
        drop(lanes);
        self.wake();
    }

    /// Hands mail over. Where there is no room the sender is remembered and called later.
    pub(super) fn push_mail(&self, mail: Mail) -> Result<(), Mail> {
        let mut lanes = self.lanes();
        if lanes.shut {
            return Ok(());
        }
        let n_mail = lanes.n_mail + mail.messages.len();
        let bytes = lanes.mail_bytes + mail.bytes;
        let fits = n_mail <= self.mail_max && bytes <= self.mail_bytes_max;
        if !fits && lanes.n_mail > 0 {
            if !lanes.turned_away.iter().any(|cell| cell.id == mail.from.id) {
                lanes.turned_away.push(Arc::clone(&mail.from));
            }
            return Err(mail);
        }
        self.count_unquiet(&mut lanes);
        lanes.n_mail = n_mail;
        lanes.mail_bytes = bytes;
        lanes.mail.push_back(mail);
        drop(lanes);
        self.wake();
        Ok(())
    }

    fn count_unquiet(&self, lanes: &mut Lanes) {
        if !lanes.unquiet {
            lanes.unquiet = true;
            self.unquiet.raise();
        }
    }

    /// Takes up to `most` controls, then mail up to `most` inputs in all and about `bytes`.
    pub(super) fn take(
        &self,
        most: usize,
        bytes: usize,
        control: &mut impl Extend<Control>,
    ) -> Taken {
        let mut lanes = self.lanes();
        let n_control = lanes.control.len().min(most);
        control.extend(lanes.control.drain(..n_control));
        let (mut mail, mut taken_bytes) = (Vec::new(), 0);
        while mail.len() + n_control < most && taken_bytes < bytes {
            let Some(next) = lanes.mail.pop_front() else { break };
            lanes.n_mail -= next.messages.len();
            lanes.mail_bytes -= next.bytes;
            taken_bytes += next.bytes;
            mail.push(next);
        }
        let more = !lanes.control.is_empty() || !lanes.mail.is_empty();
        let below_half =
            lanes.n_mail <= self.mail_max / 2 && lanes.mail_bytes <= self.mail_bytes_max / 2;
        let called = if below_half { std::mem::take(&mut lanes.turned_away) } else { Vec::new() };
        drop(lanes);
        for sender in called {
            sender.push(Control::Input(Input::Room { target: self.id }));
        }
        Taken { mail, more }
    }

    /// Takes the supervisor's word after a fall, where it has come.
    pub(super) fn take_word(&self) -> Option<Control> {
        let mut lanes = self.lanes();
        let is_word = |control: &Control| {
            matches!(control, Control::Respawn | Control::Withhold | Control::Fail { .. })
        };
        let place = lanes.control.iter().position(is_word)?;
        lanes.control.remove(place)
    }

    /// Takes the order to make the session, where that is what waits.
    pub(super) fn take_creation(&self) -> Option<Creation> {
        let mut lanes = self.lanes();
        let creates = |control: &Control| matches!(control, Control::Create { .. });
        let place = lanes.control.iter().position(creates)?;
        match lanes.control.remove(place) {
            Some(Control::Create { created, reply }) => Some(Creation { created, reply }),
            Some(_) | None => None,
        }
    }

    /// For good: what waits is dropped, which answers it, and nothing more is taken.
    pub(super) fn shut(&self) {
        self.set_phase(Phase::Stopped);
        drop(self.room.give_up_waiting());
        let mut lanes = self.lanes();
        lanes.shut = true;
        let dropped = std::mem::take(&mut *lanes);
        lanes.shut = true;
        drop(lanes);
        if dropped.unquiet {
            self.unquiet.lower();
        }
    }

    /// Whether anything waits in the lanes.
    pub(super) fn has_input(&self) -> bool {
        let lanes = self.lanes();
        !lanes.control.is_empty() || !lanes.mail.is_empty()
    }

    /// Whether anything waits in the lanes that needs the session in memory. Whoever only looks at
    /// it is told otherwise, and not called for.
    pub(super) fn has_more_than_looks(&self) -> bool {
        let mut lanes = self.lanes();
        let looks = |control: &Control| matches!(control, Control::Inspect { .. });
        if !lanes.mail.is_empty() || !lanes.control.iter().all(looks) {
            return true;
        }
        let looks = std::mem::take(&mut lanes.control);
        drop(lanes);
        for look in looks {
            if let Control::Inspect { reply } = look {
                answer(reply, Ok(None));
            }
        }
        self.settle_down();
        false
    }

    /// Counts the session as quiet, unless something waits in the lanes. It takes no more room than
    /// it must from then on.
    pub(super) fn settle_down(&self) {
        let mut lanes = self.lanes();
        if lanes.unquiet && lanes.control.is_empty() && lanes.mail.is_empty() {
            lanes.unquiet = false;
            lanes.control = VecDeque::new();
            lanes.mail = VecDeque::new();
            self.unquiet.lower();
        }
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the arbiter look at this session, once until it has looked.
    pub(super) fn wake(&self) {
        if !self.scheduled.swap(true, Ordering::AcqRel)
            && let Some(me) = self.me.upgrade()
        {
            self.woken_at.store(self.queue.rounds(), Ordering::Relaxed);
            self.queue.push(me);
        }
    }

    /// The session's actor drains the cell now.
    pub(super) fn begin_round(&self) {
        let woken_at = self.woken_at.swap(NEVER, Ordering::Relaxed);
        self.queue.begin_round((woken_at != NEVER).then_some(woken_at));
    }

    /// The session has no actor: its wait for a load is not one for its neighbours.
    pub(super) fn not_live(&self) {
        self.woken_at.store(NEVER, Ordering::Relaxed);
    }

    /// The arbiter looks now: a later push wakes anew.
    pub(super) fn looked_at(&self) {
        self.scheduled.store(false, Ordering::Release);
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    /// Whether the session is not in memory and nothing calls it there.
    pub(super) fn is_cold(&self) -> bool {
        self.phase() == Phase::Cold && !self.has_input()
    }

    /// Whether a fresh cell would be the same.
    pub(super) fn is_forgettable(&self) -> bool {
        let lanes = self.lanes();
        let empty = lanes.control.is_empty() && lanes.mail.is_empty();
        let idle = empty && lanes.turned_away.is_empty() && !lanes.unquiet && !lanes.shut;
        drop(lanes);
        idle && self.phase() == Phase::Cold && !self.is_failed() && self.room.is_unused()
    }

    pub(super) fn is_queued_in(&self, queue: &Arc<Queue>) -> bool {
        Arc::ptr_eq(&self.queue, queue)
    }

    /// Whether the session is opened without its agent.
    pub(super) fn is_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// From now on the session is opened without its agent. Returns whether it was so before.
    pub(super) fn set_failed(&self) -> bool {
        self.failed.swap(true, Ordering::AcqRel)
    }

    /// Whether what the session has accepted is dead by its failure.
    pub(super) fn is_failed_for_good(&self) -> bool {
        self.for_good.load(Ordering::Acquire)
    }

    /// That the session has failed is recorded: its next load buries what it has accepted.
    pub(super) fn set_failed_for_good(&self) {
        self.for_good.store(true, Ordering::Release);
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Every way to this session is to be asked for again; who waits for room is told.
    pub(super) fn revoke_ways(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.call_waiting();
    }

    /// Who waits for room looks again at what there is.
    fn call_waiting(&self) {
        for waiting in self.room.give_up_waiting() {
            waiting.push(Control::Revoke { target: self.id });
        }
    }

    /// Nothing can be written any more.
    pub(super) fn fault(&self) {
        self.call_waiting();
        if self.phase() == Phase::Live {
            self.push(Control::Faulted);
        }
    }

    /// Polls the actor, where there is one.
    pub(super) fn wake_actor(&self) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = &*waker {
            waker.wake_by_ref();
        }
    }

    pub(super) fn set_waker(&self, waker: Option<&Waker>) {
        let mut held = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        match (&mut *held, waker) {
            (Some(held), Some(waker)) => held.clone_from(waker),
            (held, waker) => *held = waker.cloned(),
        }
    }
}

/// What was taken from a cell.
pub(super) struct Taken {
    pub(super) mail: Vec<Mail>,
    /// Whether something is left.
    pub(super) more: bool,
}

impl Tickets for Cell {
    fn settled(&self, load: u64, ticket: u64, outcome: Result<(), Fault>) {
        if self.proof.settled(load, ticket, outcome) {
            self.wake();
        }
    }

    fn room(&self) {
        self.wake();
    }
}
