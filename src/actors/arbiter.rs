//! The arbiter threads: each runs the sessions whose ids fall to it.
//!
//! **Invariant**: nothing blocks here; a phase is changed by the session's own arbiter only; the
//! thread ends when the bus closes and no load of its sessions is left.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;

use super::cell::{Cell, Phase};
use super::control::{Control, Receipt, Reply};
use super::ending::{self, Remains};
use super::load;
use super::outgoing::answer;
use super::shared::Shared;
use super::wake::{Batch, Queue};
use crate::config::Limits;
use crate::error::{Code, Fault};
use crate::protocol::hash::IdHash;
use crate::protocol::session::{Action, Event};
use crate::protocol::{SessionId, Timestamp};

/// Threads that read journals for one arbiter, at most.
const READERS_MAX: usize = 8;
/// Bytes of payloads that are allocated at once.
const PAYLOAD_BUFFER: usize = 64 << 10;

/// What the sessions of one arbiter share.
pub(super) struct Local {
    pub(super) shared: Arc<Shared>,
    queue: Arc<Queue>,
    timers: RefCell<BTreeMap<(Timestamp, SessionId), Arc<Cell>>>,
    /// Sessions that are in memory, or on their way in or out.
    residents: RefCell<HashMap<SessionId, Arc<Cell>, IdHash>>,
    /// What is left of loads that are ending.
    pub(super) remains: RefCell<HashMap<SessionId, Remains, IdHash>>,
    receipts: RefCell<Vec<(Reply<Receipt>, Receipt)>>,
    payloads: RefCell<Payloads>,
    /// What one session has taken from its cell, and what its machine wants done, for as long as
    /// it is at it. What is left where it panics is seen to by the end of its load.
    pub(super) controls: RefCell<VecDeque<Control>>,
    pub(super) actions: RefCell<VecDeque<Action>>,
    /// Shared by every machine.
    pub(super) limits: Arc<Limits>,
}

/// Where payloads are written, one behind the other: a buffer is given back as a whole when the
/// committer has written the last of it, so that no payload is one more thing to be allocated by
/// one thread and freed by another.
#[derive(Default)]
struct Payloads {
    text: Vec<u8>,
    buffer: BytesMut,
}

/// Starts an arbiter; the receiver resolves just before the thread ends.
pub(super) fn start(
    index: usize,
    queue: Arc<Queue>,
    shared: Arc<Shared>,
) -> std::io::Result<(oneshot::Receiver<()>, JoinHandle<()>)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(READERS_MAX)
        .build()?;
    let (done, finished) = oneshot::channel();
    let thread =
        std::thread::Builder::new().name(format!("callboard-{index}")).spawn(move || {
            let local = Rc::new(Local {
                limits: Arc::new(shared.config.limits.clone()),
                shared,
                queue,
                timers: RefCell::default(),
                residents: RefCell::default(),
                remains: RefCell::default(),
                receipts: RefCell::default(),
                payloads: RefCell::default(),
                controls: RefCell::default(),
                actions: RefCell::default(),
            });
            tokio::task::LocalSet::new().block_on(&runtime, run(&local));
            // What still blocks was given up: nobody waits for it.
            runtime.shutdown_background();
            if done.send(()).is_err() {
                tracing::debug!("nobody waits for the arbiter's end");
            }
        })?;
    Ok((finished, thread))
}

async fn run(local: &Rc<Local>) {
    let mut cells = Vec::new();
    let mut stopping = false;
    loop {
        local.give_receipts();
        local.queue.take(&mut cells);
        if cells.is_empty() && !local.fire() {
            if stopping && local.residents.borrow().is_empty() {
                return local.shared.shut_cells(&local.queue);
            }
            local.sleep().await;
        }
        if !stopping && local.shared.is_stopping() {
            stopping = true;
            local.stop_residents();
        }
        let batch = Batch::begin();
        for cell in cells.drain(..) {
            cell.looked_at();
            if catch_unwind(AssertUnwindSafe(|| attend(local, &cell))).is_err() {
                // A bug: this session stays as it is until a restart, the others go on.
                tracing::error!(session = %cell.id(), "the arbiter cannot attend to a session");
                let text = "the session cannot be loaded or ended";
                cell.set_phase(Phase::Quarantined(Fault::new(Code::NotDurable, text)));
                local.leave(&cell);
            }
        }
        drop(batch);
        tokio::task::yield_now().await;
    }
}

/// Looks at a session that was woken.
fn attend(local: &Rc<Local>, cell: &Arc<Cell>) {
    let phase = cell.phase();
    if phase != Phase::Live {
        cell.not_live();
    }
    match phase {
        Phase::Live => cell.wake_actor(),
        Phase::Cold => {
            if local.shared.is_stopping() {
                cell.shut();
            } else if cell.has_more_than_looks() {
                load::begin(local, cell);
            }
        }
        Phase::Loading => {}
        Phase::Draining => {
            if cell.proof.take_ended() {
                ending::finish(local, cell);
                attend(local, cell);
            }
        }
        Phase::Fallen(fault) => ending::await_word(local, cell, &fault),
        Phase::Quarantined(fault) => ending::turn_away(local, cell, &fault),
        Phase::Stopped => cell.shut(),
    }
}

impl Local {
    /// Wakes a session at a moment of the steady clock. Returns nothing to cancel: an early wake
    /// does no harm.
    pub(super) fn wake_at(&self, at: Timestamp, cell: &Arc<Cell>) {
        let mut timers = self.timers.borrow_mut();
        let first = timers.first_key_value().map(|((first, _), _)| *first);
        timers.insert((at, cell.id()), Arc::clone(cell));
        if first.is_none_or(|first| at < first) {
            self.queue.poke();
        }
    }

    /// Wakes whose time has come; whether there were any.
    fn fire(&self) -> bool {
        let mut timers = self.timers.borrow_mut();
        if timers.is_empty() {
            return false;
        }
        let now = self.shared.clock.steady();
        let mut fired = false;
        while let Some(entry) = timers.first_entry() {
            if entry.key().0 > now {
                break;
            }
            entry.remove().wake();
            fired = true;
        }
        fired
    }

    /// Until the queue or a timer calls.
    async fn sleep(&self) {
        let next = self.timers.borrow().first_key_value().map(|((at, _), _)| at.0);
        let Some(at) = next else { return self.queue.poked().await };
        let wait = Duration::from_millis(at.saturating_sub(self.shared.clock.steady().0).max(1));
        tokio::select! {
            () = self.queue.poked() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }

    pub(super) fn enter(&self, cell: &Arc<Cell>) {
        self.residents.borrow_mut().insert(cell.id(), Arc::clone(cell));
    }

    pub(super) fn leave(&self, cell: &Arc<Cell>) {
        self.residents.borrow_mut().remove(&cell.id());
    }

    pub(super) fn n_residents(&self) -> usize {
        self.residents.borrow().len()
    }

    /// Gives a receipt soon, together with those of the sessions beside: each wakes a thread
    /// outside, which costs more than all the rest of a send where it is done one by one.
    pub(super) fn receipt(&self, reply: Reply<Receipt>, receipt: Receipt) {
        let mut receipts = self.receipts.borrow_mut();
        if receipts.is_empty() {
            self.queue.poke();
        }
        receipts.push((reply, receipt));
    }

    /// Events as they are stored.
    ///
    /// # Errors
    /// When they cannot be serialised, which their types do not allow.
    pub(super) fn written(&self, events: &[Event]) -> Result<Bytes, serde_json::Error> {
        let Payloads { text, buffer } = &mut *self.payloads.borrow_mut();
        text.clear();
        serde_json::to_writer(&mut *text, events)?;
        if buffer.capacity() < text.len() {
            buffer.reserve(text.len().max(PAYLOAD_BUFFER));
        }
        buffer.extend_from_slice(text);
        Ok(buffer.split().freeze())
    }

    fn give_receipts(&self) {
        let mut receipts = std::mem::take(&mut *self.receipts.borrow_mut());
        for (reply, receipt) in receipts.drain(..) {
            // Whoever waits for it is woken here: that one's panic is nobody else's.
            drop(catch_unwind(AssertUnwindSafe(|| answer(reply, Ok(receipt)))));
        }
        // The list keeps its room.
        self.receipts.replace(receipts);
    }

    fn stop_residents(&self) {
        for cell in self.residents.borrow().values() {
            cell.push(Control::Stop);
        }
    }
}
