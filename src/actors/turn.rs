//! What an agent can do in a turn.
//!
//! **Invariant**: what is staged leaves with the end of the turn or not at all; a send to a full
//! target is refused, never awaited.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::cell::Cell;
use super::control::{Control, Receipt, Send as Sending};
use super::outgoing::{NotStaged, Outgoing};
use super::request::Request;
use super::room::{Reservation, Staged};
use super::shared::Shared;
use crate::error::{Code, Ended, Error, Fault, Refused};
use crate::protocol::session::state::Item;
use crate::protocol::session::{Addressed, queued_bound};
use crate::protocol::{Draft, Label, MessageId, SessionId, SourceKind};

/// A turn, as its agent sees it.
pub struct Turn {
    shared: Arc<Shared>,
    cell: Arc<Cell>,
    label: Label,
    number: u64,
    attempt: u32,
    /// All that the turn has taken; what this step has begun with stands at its end.
    items: Vec<Item>,
    n_before: usize,
    arrivals: Rc<RefCell<Vec<Item>>>,
    outgoing: Rc<RefCell<Outgoing>>,
    staged: Vec<Addressed>,
    reservations: Vec<Reservation>,
    staged_bytes: usize,
    n_sends: usize,
    refused: Vec<SessionId>,
}

/// What a turn begins with.
pub(super) struct Opening {
    pub(super) number: u64,
    pub(super) attempt: u32,
    pub(super) items: Vec<Item>,
}

impl Turn {
    pub(super) fn new(
        shared: &Arc<Shared>,
        cell: &Arc<Cell>,
        (label, opening): (Label, Opening),
        outgoing: Rc<RefCell<Outgoing>>,
    ) -> Self {
        let Opening { number, attempt, items } = opening;
        Turn {
            shared: Arc::clone(shared),
            cell: Arc::clone(cell),
            label,
            number,
            attempt,
            items,
            n_before: 0,
            arrivals: Rc::default(),
            outgoing,
            staged: Vec::new(),
            reservations: Vec::new(),
            staged_bytes: 0,
            n_sends: 0,
            refused: Vec::new(),
        }
    }

    /// The session's address.
    pub fn id(&self) -> SessionId {
        self.cell.id()
    }

    /// The session's label.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// The turn's number in this session, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The attempt of the messages it began with, from 1. Above 1 they were offered before, and
    /// what was sent at once then may have been sent.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// What this step begins with: at the first step what the turn took, later what has arrived
    /// since.
    pub fn messages(&self) -> &[Item] {
        self.items.get(self.n_before..).unwrap_or_default()
    }

    /// What has arrived since. It belongs to the turn from now on.
    ///
    /// # Errors
    /// `CLOSED` when the session ends.
    ///
    /// # Cancel safety
    /// What had arrived is given to the next call, or to the next step.
    pub async fn arrived(&mut self) -> Result<Vec<Item>, Error> {
        let (reply, answer) = oneshot::channel();
        self.cell.push(Control::Arrived { reply });
        closed(answer).await?;
        let items = std::mem::take(&mut *self.arrivals.borrow_mut());
        self.items.extend(items.iter().cloned());
        self.n_before = self.items.len();
        Ok(items)
    }

    /// Sends at once; returns when the message is queued, durably. When the turn is tried again,
    /// such a send repeats.
    ///
    /// # Errors
    /// `NOT_FOUND`, `MESSAGE_TOO_LARGE`, `MAILBOX_FULL`, `TURN_LIMIT`: nothing happened;
    /// `NOT_DURABLE`: unknown.
    ///
    /// # Cancel safety
    /// The message may be sent.
    pub async fn send(&mut self, draft: Draft) -> Result<Receipt, Error> {
        self.count_send()?;
        let (reply, answer) = oneshot::channel();
        let (target, kind) = (draft.to, SourceKind::Agent);
        self.cell.push(Control::Send(Sending { draft, wait_for_room: false, kind, reply }));
        let receipt = closed(answer).await;
        self.note_outcome(target, receipt.as_ref().err());
        receipt
    }

    /// Sends with the end of the turn, in one frame with it: both or none. Room is reserved now,
    /// and given back when the turn fails.
    ///
    /// # Errors
    /// `NOT_FOUND`, `MESSAGE_TOO_LARGE`, `MAILBOX_FULL`, `TURN_LIMIT`: nothing happened.
    ///
    /// # Cancel safety
    /// Nothing is staged.
    pub async fn stage(&mut self, draft: Draft) -> Result<MessageId, Error> {
        self.count_send()?;
        let target = draft.to;
        let hop = self.hop(draft.cause);
        let tried = self.outgoing.borrow_mut().try_stage(draft, hop);
        let staged = match tried {
            Ok(staged) => Ok(staged),
            Err(NotStaged::Error(error)) => Err(error),
            Err(NotStaged::Ask(draft)) => {
                let (reply, answer) = oneshot::channel();
                self.cell.push(Control::Stage { draft, reply });
                closed(answer).await
            }
        };
        self.note_outcome(target, staged.as_ref().err());
        let Staged { addressed, reservation } = staged?;
        let bytes = self.staged_bytes + queued_bound(&addressed.message);
        let limit = self.staged_bytes_max();
        if bytes > limit && !self.staged.is_empty() {
            self.n_sends -= 1;
            let text = "the turn's staged messages are over what one frame holds";
            return Err(Refused::over(Code::TurnLimit, text, limit as u64, bytes as u64).into());
        }
        let id = addressed.message.id;
        self.staged_bytes = bytes;
        self.staged.push(addressed);
        self.reservations.push(reservation);
        Ok(id)
    }

    /// What of a frame staged messages may take: the state needs some of it.
    fn staged_bytes_max(&self) -> usize {
        let (frame, state) =
            (self.shared.config.store.frame_max, self.shared.config.limits.agent_state_max);
        frame - state.min(frame / 2)
    }

    /// A send that is given up may happen: it counts until it is known that it has not.
    fn count_send(&mut self) -> Result<(), Error> {
        let limit = self.shared.config.limits.sends_per_turn;
        if self.n_sends < limit {
            self.n_sends += 1;
            return Ok(());
        }
        let text = "more sends in one turn than the limit allows";
        let (limit, current) = (limit as u64, self.n_sends as u64 + 1);
        Err(Refused::over(Code::TurnLimit, text, limit, current).into())
    }

    fn note_outcome(&mut self, target: SessionId, error: Option<&Error>) {
        if let Some(Error::Refused(_)) = error {
            self.n_sends -= 1;
        }
        self.refused.retain(|refused| *refused != target);
        if error.is_some_and(|error| error.code() == Code::MailboxFull) {
            self.refused.push(target);
        }
    }

    fn hop(&self, cause: Option<MessageId>) -> u32 {
        let Some(cause) = cause else { return 0 };
        let caused = self.items.iter().find(|item| item.message.id == cause);
        caused.map_or(0, |item| item.message.source.hop + 1)
    }

    /// Which session, of those that may be reached from here, has this label?
    ///
    /// # Errors
    /// `NOT_FOUND`.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn find(&self, label: &Label) -> Result<SessionId, Error> {
        closed(self.shared.supervisor.find(self.cell.id(), label.clone())).await
    }

    /// Whom may this session reach, in no order?
    ///
    /// # Errors
    /// `CLOSED` when the bus closes.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn peers(&self) -> Result<Vec<(SessionId, Label)>, Error> {
        let (reply, answer) = oneshot::channel();
        self.shared.supervisor.ask(Request::Peers { from: self.cell.id(), reply });
        closed(answer).await
    }

    /// Runs blocking work on a thread of its own.
    ///
    /// # Errors
    /// `STORE_UNUSABLE` when the system gives no thread.
    ///
    /// # Panics
    /// With the panic of the work.
    ///
    /// # Cancel safety
    /// The work goes on; its result is lost.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (done, result) = oneshot::channel();
        let run = move || {
            // Nobody takes the result where the call was given up.
            drop(done.send(catch_unwind(AssertUnwindSafe(work))));
        };
        // Not one of the threads that read journals: nobody knows how long it takes.
        if let Err(error) = std::thread::Builder::new().name("callboard-work".into()).spawn(run) {
            let text = format!("the system gives no thread: {error}");
            return Err(Fault::new(Code::StoreUnusable, text).into());
        }
        match result.await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(Ended::Closed.into()),
        }
    }

    pub(super) fn arrivals(&self) -> Rc<RefCell<Vec<Item>>> {
        Rc::clone(&self.arrivals)
    }

    /// Whether something has arrived that the agent has asked for and not seen.
    pub(super) fn has_unseen(&self) -> bool {
        !self.arrivals.borrow().is_empty()
    }

    /// The next step begins.
    pub(super) fn go_on(&mut self, items: Vec<Item>) {
        self.n_before = self.items.len();
        self.items.append(&mut self.arrivals.borrow_mut());
        self.items.extend(items);
    }

    pub(super) fn staged(&self) -> Vec<Addressed> {
        self.staged.clone()
    }

    pub(super) fn keep_staged(&mut self) {
        self.reservations.drain(..).for_each(Reservation::keep);
    }

    /// The targets that had no room for a send of this turn.
    pub(super) fn refused(&self) -> &[SessionId] {
        &self.refused
    }
}

/// An answer that is dropped says that the session is closed.
pub(super) async fn closed<T>(answer: oneshot::Receiver<Result<T, Error>>) -> Result<T, Error> {
    answer.await.unwrap_or_else(|_| Err(Ended::Closed.into()))
}
