//! Sessions that are driven from outside: the handle, and its other end in the actor.
//!
//! **Invariant**: one handle at a time; what was taken and not acknowledged comes again when the
//! handle is dropped or the process restarts; what nobody received is given to the next take.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::body::{Body, stale};
use super::cell::Cell;
use super::control::{Control, Receipt, Reply, Send};
use super::outgoing::answer;
use super::resident::Resident;
use super::shared::Shared;
use super::turn::closed;
use crate::error::{Code, Ended, Error, Fault, Refused};
use crate::protocol::session::state::Item;
use crate::protocol::session::{End, Input};
use crate::protocol::{Draft, SessionId, SourceKind};

/// Drives one session from outside. Works on any runtime. Dropping it gives back what was taken and
/// not acknowledged.
pub struct Driver {
    shared: Arc<Shared>,
    id: SessionId,
    key: Key,
}

/// The key of a handle. Dropping it detaches the handle, received or not.
pub struct Key {
    cell: Arc<Cell>,
    number: u64,
}

impl Drop for Key {
    fn drop(&mut self) {
        self.cell.push(Control::Detach { key: self.number });
    }
}

/// What a driver took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The turn.
    pub turn: u64,
    /// The attempt of its messages, from 1.
    pub attempt: u32,
    /// The messages, in order.
    pub messages: Vec<Item>,
}

impl Driver {
    /// Attaches to a session that was made to be driven.
    ///
    /// # Errors
    /// `STALE_CALLER` while another handle drives it; `INVALID_ARGUMENT` for a session with an
    /// agent; `NOT_FOUND`; `CLOSED`.
    ///
    /// # Cancel safety
    /// A handle that nobody receives is detached.
    pub async fn attach(shared: &Arc<Shared>, id: SessionId) -> Result<Self, Error> {
        let key = shared.call(id, |reply| Control::Attach { reply }).await?;
        Ok(Driver { shared: Arc::clone(shared), id, key })
    }

    /// The session.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Waits for mail and takes it.
    ///
    /// # Errors
    /// `STALE_CALLER` when this handle does not drive the session any more, `CLOSED`.
    ///
    /// # Cancel safety
    /// What was taken meanwhile is given to the next call.
    pub async fn take(&mut self) -> Result<Taken, Error> {
        let key = self.key.number;
        let mut waits = Waits { driver: self, done: false };
        let taken = waits.driver.call(|reply| Control::Take { key, reply }).await;
        waits.done = true;
        taken
    }

    /// What was taken is handled; returns when that is durable.
    ///
    /// # Errors
    /// `STALE_CALLER` when the turn is not open any more, `CLOSED`, `NOT_DURABLE`.
    ///
    /// # Cancel safety
    /// It is acknowledged all the same.
    pub async fn acknowledge(&mut self, taken: Taken) -> Result<(), Error> {
        let (key, turn) = (self.key.number, taken.turn);
        self.call(|reply| Control::Acknowledge { key, turn, reply }).await
    }

    /// Sends; returns when the message is queued, durably.
    ///
    /// # Errors
    /// `NOT_FOUND`, `SELF_MESSAGE`, `MESSAGE_TOO_LARGE`, `MAILBOX_FULL`, `CLOSED`: nothing
    /// happened; `NOT_DURABLE`: unknown.
    ///
    /// # Cancel safety
    /// The message may be sent.
    pub async fn send(&self, draft: Draft) -> Result<Receipt, Error> {
        send(&self.shared, self.id, draft, false).await
    }

    /// Sends as [`Driver::send`] does, and waits where the target has no room.
    ///
    /// # Errors
    /// As [`Driver::send`], without `MAILBOX_FULL`.
    ///
    /// # Cancel safety
    /// While it waits for room, nothing is sent.
    pub async fn send_when_room(&self, draft: Draft) -> Result<Receipt, Error> {
        send(&self.shared, self.id, draft, true).await
    }

    async fn call<T>(&self, control: impl FnOnce(Reply<T>) -> Control) -> Result<T, Error> {
        self.shared.call(self.id, control).await
    }
}

/// Says that nobody waits any more, where a wait is given up.
struct Waits<'a> {
    driver: &'a Driver,
    done: bool,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if !self.done {
            let Key { cell, number } = &self.driver.key;
            cell.push(Control::Leave { key: *number });
        }
    }
}

/// Sends on behalf of a session, outside its turns.
///
/// # Errors
/// As [`Driver::send`].
///
/// # Cancel safety
/// The message may be sent; while it waits for room, it is not.
pub async fn send(
    shared: &Shared,
    from: SessionId,
    draft: Draft,
    wait_for_room: bool,
) -> Result<Receipt, Error> {
    let (reply, receipt) = oneshot::channel();
    if shared.is_closing() {
        return Err(Ended::Closed.into());
    }
    let kind = SourceKind::Driver;
    shared.cell(from).push(Control::Send(Send { draft, wait_for_room, kind, reply }));
    closed(receipt).await
}

/// The driver's end in the actor.
pub(super) struct DriverBody {
    next_key: u64,
    attached: Option<u64>,
    waiting: Option<Reply<Taken>>,
    /// The open turn, kept until it is acknowledged: its answer may be lost on its way.
    open: Option<Taken>,
    /// The open turn was given to somebody who waited.
    claimed: bool,
    acknowledging: Option<Reply<()>>,
    /// The turn that is decided to be handled.
    completed: Option<u64>,
}

impl DriverBody {
    pub(super) fn new(load: u64) -> Self {
        DriverBody {
            next_key: load << 32,
            attached: None,
            waiting: None,
            open: None,
            claimed: false,
            acknowledging: None,
            completed: None,
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.open.is_some()
    }

    pub(super) fn is_attached(&self) -> bool {
        self.attached.is_some()
    }

    pub(super) fn stop(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            answer(waiting, Err(Ended::Closed.into()));
        }
    }

    pub(super) fn begin(&mut self, turn: u64, attempt: u32, messages: Vec<Item>) {
        self.open = Some(Taken { turn, attempt, messages });
        self.claimed = false;
        self.give();
    }

    pub(super) fn give_up(&mut self, fault: &Fault) {
        if let Some(reply) = self.acknowledging.take() {
            answer(reply, Err(fault.clone().into()));
        }
        if let Some(reply) = self.waiting.take() {
            answer(reply, Err(fault.clone().into()));
        }
    }

    /// Gives the open turn to who waits for it.
    fn give(&mut self) {
        if let Some(taken) = &self.open
            && let Some(waiting) = self.waiting.take()
        {
            self.claimed = waiting.send(Ok(taken.clone())).is_ok();
        }
    }

    /// A wait was given up: what was given to it meanwhile is for the next one.
    fn leave(&mut self) -> Input {
        if self.waiting.take().is_none() && self.acknowledging.is_none() {
            self.claimed = false;
        }
        Input::NotReady
    }

    /// The turn is decided to be handled, not interrupted.
    pub(super) fn complete(&mut self, turn: u64) {
        self.completed = Some(turn);
    }

    pub(super) fn end(&mut self, turn: u64) {
        if self.is_open(turn) {
            self.open = None;
            let handled = self.completed == Some(turn);
            if let Some(reply) = self.acknowledging.take() {
                answer(reply, if handled { Ok(()) } else { Err(turn_is_over().into()) });
            }
        }
    }

    fn is_open(&self, turn: u64) -> bool {
        self.open.as_ref().is_some_and(|open| open.turn == turn)
    }

    fn take(&mut self, reply: Reply<Taken>) -> Option<Input> {
        self.waiting = Some(reply);
        if self.open.is_some() && !self.claimed {
            self.give();
            return None;
        }
        Some(Input::Ready)
    }

    fn acknowledge(&mut self, turn: u64, reply: Reply<()>) -> Option<Input> {
        if !self.is_open(turn) || self.acknowledging.is_some() {
            answer(reply, Err(turn_is_over().into()));
            return None;
        }
        self.acknowledging = Some(reply);
        Some(Input::End(End { turn, firm: true, ..End::default() }))
    }

    fn detach(&mut self) -> Input {
        self.attached = None;
        self.waiting = None;
        // Nobody takes it now.
        self.claimed = true;
        // A turn whose end is asked for ends as asked.
        let open = self.open.is_some() && self.acknowledging.is_none();
        if open { Input::GiveBack } else { Input::NotReady }
    }
}

impl Resident {
    /// What the driver's handle asks for.
    pub(super) fn drive(&mut self, control: Control) {
        let stopping = self.stop_at.is_some();
        let fault = self.local.shared.store.fault();
        let Body::Driver(driver) = &mut self.body else { return not_driven(control) };
        let drives = |key: u64| driver.attached == Some(key);
        let input = match control {
            Control::Attach { reply } if driver.attached.is_some() || stopping => {
                answer(reply, Err(stale().into()));
                None
            }
            Control::Attach { reply } => {
                driver.next_key += 1;
                driver.attached = Some(driver.next_key);
                let key = Key { cell: Arc::clone(&self.cell), number: driver.next_key };
                answer(reply, Ok(key));
                None
            }
            Control::Take { reply, .. } if stopping || self.machine.state().closed => {
                answer(reply, Err(Ended::Closed.into()));
                None
            }
            Control::Take { reply, .. } if fault.is_some() => {
                if let Some(fault) = fault {
                    answer(reply, Err(fault.into()));
                }
                None
            }
            Control::Take { key, reply } if drives(key) => driver.take(reply),
            Control::Take { reply, .. } => {
                answer(reply, Err(superseded().into()));
                None
            }
            Control::Leave { key } if drives(key) => Some(driver.leave()),
            Control::Acknowledge { key, turn, reply } if drives(key) => {
                driver.acknowledge(turn, reply)
            }
            Control::Acknowledge { reply, .. } => {
                answer(reply, Err(superseded().into()));
                None
            }
            Control::Detach { key } if drives(key) => Some(driver.detach()),
            _ => None,
        };
        self.batch.extend(input);
    }
}

/// The session has an agent, or nobody at all.
fn not_driven(control: Control) {
    let text = "the session is not made to be driven from outside";
    let refused = Refused::new(Code::InvalidArgument, text);
    match control {
        Control::Attach { reply } => answer(reply, Err(refused.into())),
        Control::Take { reply, .. } => answer(reply, Err(superseded().into())),
        Control::Acknowledge { reply, .. } => answer(reply, Err(superseded().into())),
        _ => {}
    }
}

/// The answer to a handle that drives no more.
fn superseded() -> Refused {
    Refused::new(Code::StaleCaller, "this handle does not drive the session any more")
}

/// The answer to who acknowledges a turn that has ended, by whatever end.
fn turn_is_over() -> Refused {
    Refused::new(Code::StaleCaller, "the turn is not open any more")
}
