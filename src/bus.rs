//! The one handle everybody uses: cheap to clone, usable from any thread and any runtime.
//!
//! **Boundary**: no policy. A call goes to the supervisor (the graph) or to a session's cell (its
//! mail), and comes back when what it says is on disk.

mod open;

use std::sync::Arc;

use tokio::sync::oneshot;

pub use self::open::Builder;
pub use crate::actors::agent::{Agent, AgentError, Factory, Next, Seed, StepFuture};
pub use crate::actors::control::Receipt;
use crate::actors::control::Reply;
use crate::actors::driver;
pub use crate::actors::driver::{Driver, Taken};
use crate::actors::load;
pub use crate::actors::observer::Observer;
pub use crate::actors::progress::Progress;
use crate::actors::request::Request;
use crate::actors::shared::Shared;
pub use crate::actors::turn::Turn;
use crate::error::{Code, Ended, Error, Fault, Refused};
use crate::persist::store::{RecoveryReport, StoredFrame};
pub use crate::protocol::session::state::{Counts, Item};
pub use crate::protocol::session::{AgentState, BodySpec, Event, Inspection, Status};
use crate::protocol::session::{Created, State};
use crate::protocol::supervisor::rules;
pub use crate::protocol::supervisor::{Origin, Phase, Record};
use crate::protocol::{Draft, Label, SessionId, Timestamp, Workspace};

/// A running bus. Clones share it; the last one dropped asks it to stop and does not wait.
#[derive(Clone)]
pub struct Bus {
    house: Arc<House>,
}

/// What the clones share.
struct House {
    shared: Arc<Shared>,
    recovery: Recovery,
    stop: open::Stop,
}

/// A session to be made.
#[derive(Debug, Clone)]
pub struct Create {
    /// Its label; never used before in this data directory.
    pub label: Label,
    /// Its workspace; one without sees only itself.
    pub workspace: Option<Workspace>,
    /// Who thinks inside it.
    pub body: BodySpec,
}

/// Which part of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Frames before this position; none: from the newest on.
    pub before: Option<u64>,
    /// Frames at most; at least 1.
    pub limit: usize,
}

/// A part of a session's history, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The frames.
    pub entries: Vec<Entry>,
    /// Where the next page begins; none at the journal's start.
    pub next: Option<u64>,
}

/// One frame of a history: one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it lies in the log.
    pub position: u64,
    /// When it was decided.
    pub time: Timestamp,
    /// Its events, in order.
    pub events: Vec<Event>,
}

/// What opening did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// What the store did.
    pub store: RecoveryReport,
    /// Sessions that had work to go on with.
    pub resumed: u64,
}

impl Bus {
    /// Begins to configure a bus.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Makes a session. Its id and label are on disk before its actor starts, its own first frame
    /// before this returns.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an agent's name that no factory has, one over 64 bytes, settings over
    /// `agent_state_max`, and where the factory cannot make the agent: then the session has failed,
    /// else nothing happened. `NAME_TAKEN`, `SESSION_LIMIT`, or the store's fault.
    ///
    /// # Cancel safety
    /// Dropped before it returns, the session may exist: [`Bus::find`] tells.
    ///
    /// # Durability
    /// As the store promises.
    pub async fn create(&self, create: Create) -> Result<SessionId, Error> {
        let shared = &self.house.shared;
        let known = |name: &str| shared.factories.contains_key(name);
        rules::check_body(&create.body, shared.config.limits.agent_state_max, known)?;
        let id = SessionId::new(shared.clock.fresh());
        let Create { label, workspace, body } = create;
        let created = Created { id, label: label.clone(), workspace, body };
        let made = self.ask(|reply| Request::Create { created, reply }).await;
        match &made {
            Ok(id) => tracing::debug!(%id, %label, "a session is made"),
            Err(error) => tracing::debug!(%label, %error, "a session is not made"),
        }
        made
    }

    /// Lets two sessions of one workspace talk.
    ///
    /// # Errors
    /// `NOT_FOUND`, `INVALID_ARGUMENT`, or the store's fault.
    pub async fn connect(&self, one: SessionId, other: SessionId) -> Result<(), Error> {
        self.ask(|reply| Request::Connect { one, other, reply }).await?;
        tracing::debug!(%one, %other, "two sessions may talk");
        Ok(())
    }

    /// Adds sessions to a group, whose members may all talk to each other.
    ///
    /// # Errors
    /// `NOT_FOUND`, `INVALID_ARGUMENT`, or the store's fault.
    pub async fn group(&self, group: &Label, members: &[SessionId]) -> Result<(), Error> {
        let (name, members) = (group, members.to_vec());
        let (group, n_members) = (name.clone(), members.len());
        self.ask(|reply| Request::Group { group, members, reply }).await?;
        tracing::debug!(group = %name, n_members, "a group may talk");
        Ok(())
    }

    /// Every session there ever was in this directory.
    ///
    /// # Errors
    /// The store's fault.
    pub async fn list(&self) -> Result<Vec<Record>, Error> {
        self.ask(|reply| Request::List { reply }).await
    }

    /// A session by its label.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn find(&self, label: &Label) -> Result<SessionId, Error> {
        let label = label.clone();
        self.ask(|reply| Request::Lookup { label, reply }).await
    }

    /// Gives the directory to one trace or scenario; the first call records it.
    ///
    /// # Errors
    /// `WRONG_ORIGIN` when it belongs to another.
    pub async fn dedicate(&self, origin: Origin) -> Result<(), Error> {
        self.ask(|reply| Request::Dedicate { origin, reply }).await
    }

    /// What the directory is for.
    ///
    /// # Errors
    /// The store's fault.
    pub async fn origin(&self) -> Result<Option<Origin>, Error> {
        self.ask(|reply| Request::Origin { reply }).await
    }

    /// Ends a session: it takes no turn and accepts no mail any more; accepted mail that is not
    /// handled is dead, queued mail is refused, and every sender is told.
    ///
    /// # Errors
    /// `NOT_FOUND`, or the store's fault.
    pub async fn close(&self, id: SessionId) -> Result<(), Error> {
        self.ask(|reply| Request::Close { id, reply }).await?;
        tracing::debug!(%id, "a session is closed");
        Ok(())
    }

    /// Sends on behalf of a session.
    ///
    /// # Errors
    /// `NOT_FOUND` for a session that is not there, may not be reached or is closed: one answer, so
    /// that it tells nothing about strangers; `SELF_MESSAGE`, `MESSAGE_TOO_LARGE`, `MAILBOX_FULL`:
    /// nothing happened. `NOT_DURABLE`, and `CLOSED` where the bus stopped meanwhile: unknown
    /// whether it is queued. Any other fault: it is not.
    ///
    /// # Cancel safety
    /// Dropped before it returns, the message may be queued.
    ///
    /// # Durability
    /// The receipt is given when the message is in the sender's journal, as durable as the store
    /// promises.
    pub async fn send(&self, from: SessionId, draft: Draft) -> Result<Receipt, Error> {
        self.send_as(from, draft, false).await
    }

    /// As [`Bus::send`], but waits for room where the target is full.
    ///
    /// # Errors
    /// As [`Bus::send`], without `MAILBOX_FULL`.
    ///
    /// # Cancel safety
    /// As [`Bus::send`]; while it waits for room, nothing is sent.
    pub async fn send_when_room(&self, from: SessionId, draft: Draft) -> Result<Receipt, Error> {
        self.send_as(from, draft, true).await
    }

    async fn send_as(
        &self,
        from: SessionId,
        draft: Draft,
        wait_for_room: bool,
    ) -> Result<Receipt, Error> {
        self.known(from).await?;
        driver::send(&self.house.shared, from, draft, wait_for_room).await
    }

    /// Drives a session from outside; exclusive while the handle lives.
    ///
    /// # Errors
    /// `NOT_FOUND`; `INVALID_ARGUMENT` for a session with an agent; `STALE_CALLER` while another
    /// handle drives it.
    pub async fn attach(&self, id: SessionId) -> Result<Driver, Error> {
        self.known(id).await?;
        Driver::attach(&self.house.shared, id).await
    }

    /// A session's state of affairs, as it is on disk, without messaging it. One that is not in
    /// memory is not loaded for this: its journal is read.
    ///
    /// # Errors
    /// `NOT_FOUND`; `JOURNAL_CORRUPT` for a damaged one.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn inspect(&self, id: SessionId) -> Result<Inspection, Error> {
        let record = self.ask(|reply| Request::Known { id, reply }).await?;
        let inspection = match self.house.shared.look(id).await? {
            Some(inspection) => inspection,
            None => self.read(&record).await?,
        };
        Ok(Inspection { status: record.status(inspection.status), ..inspection })
    }

    /// What the journal of a session says that is not in memory.
    async fn read(&self, record: &Record) -> Result<Inspection, Error> {
        let Created { id, label, .. } = &record.created;
        let (id, store) = (*id, Arc::clone(&self.house.shared.store));
        let state = open::blocking(move || load::fold(&*store, id)).await??;
        match state {
            Some(state) => Ok(state.inspection((id, label), false)),
            // One that could not be made has no journal.
            None if record.phase == Phase::Failed => {
                Ok(State::default().inspection((id, label), false))
            }
            None => Err(Refused::not_found().into()),
        }
    }

    /// A page of a session's events, newest first.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a page of no frames; `NOT_FOUND`; `JOURNAL_CORRUPT` where the page is
    /// damaged; the store's fault.
    pub async fn history(&self, id: SessionId, page: Page) -> Result<History, Error> {
        if page.limit == 0 {
            let text = "a page of a history has at least one frame";
            return Err(Refused::new(Code::InvalidArgument, text).into());
        }
        self.ask(|reply| Request::Known { id, reply }).await?;
        let store = Arc::clone(&self.house.shared.store);
        let read = move || store.history(id, page.before, page.limit);
        let page = open::blocking(read).await??;
        let entries = page.frames.into_iter().map(entry).collect::<Result<_, _>>()?;
        Ok(History { entries, next: page.next })
    }

    /// Waits until no session has anything left to do and nothing is on its way. Mail for a session
    /// that is damaged or has no agent is on its way for as long as that is so:
    /// [`Bus::n_stranded`] tells.
    ///
    /// # Errors
    /// `CLOSED` when the bus stops first; the store's fault once nothing can be written any more.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn quiet(&self) -> Result<(), Error> {
        self.house.shared.quiet().await;
        if self.house.shared.is_closing() {
            return Err(Ended::Closed.into());
        }
        self.fault().map_or(Ok(()), |fault| Err(fault.into()))
    }

    /// Sessions that have come to a stand since this bus was opened: failed, without their agent,
    /// or damaged. What they have accepted stays in their journals, but for the failed: that is
    /// dead.
    pub fn n_stranded(&self) -> u64 {
        self.house.shared.n_stranded()
    }

    /// Counts since this bus was opened.
    pub fn progress(&self) -> Progress {
        self.house.shared.progress()
    }

    /// What opening did.
    pub fn recovery(&self) -> Recovery {
        let mut recovery = self.house.recovery.clone();
        recovery.store.bytes_read = self.house.shared.store.recovery().bytes_read;
        recovery
    }

    /// Bytes of log in use, without what is preallocated.
    pub fn journal_bytes(&self) -> u64 {
        self.house.shared.store.used_bytes()
    }

    /// Why nothing can be written any more, if so.
    pub fn fault(&self) -> Option<Fault> {
        self.house.shared.store.fault()
    }

    /// Stops in order: takes nothing in any more, lets turns end within `stop_max`, flushes, ends
    /// its threads, gives the directory back. Other clones get `CLOSED` from then on.
    ///
    /// # Errors
    /// The fault that kept the last commit from the disk.
    ///
    /// # Cancel safety
    /// The stop goes on; a second call waits for the same end.
    pub async fn shut_down(&self) -> Result<(), Error> {
        self.house.stop.begin(&self.house.shared);
        self.house.stop.wait().await
    }

    /// Whether a session exists; asked of the supervisor only where nobody has spoken to it yet.
    async fn known(&self, id: SessionId) -> Result<(), Error> {
        if self.house.shared.known_cell(id).is_none() {
            self.ask(|reply| Request::Known { id, reply }).await?;
        }
        Ok(())
    }

    async fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        if self.house.shared.is_closing() {
            return Err(Ended::Closed.into());
        }
        self.house.shared.supervisor.ask(request(reply));
        answer.await.unwrap_or(Err(Error::Ended(Ended::Closed)))
    }
}

fn entry(frame: StoredFrame) -> Result<Entry, Error> {
    let events = serde_json::from_slice(&frame.payload).map_err(|error| {
        Fault::new(Code::JournalCorrupt, format!("a frame cannot be read: {error}"))
    })?;
    Ok(Entry { position: frame.position, time: frame.time, events })
}

impl Drop for House {
    fn drop(&mut self) {
        self.stop.begin(&self.shared);
    }
}
