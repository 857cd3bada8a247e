//! What sessions ask of the supervisor.
//!
//! **Invariant**: bodies never pass through here; every request is answered, and a reply that is
//! dropped unanswered says that the bus is closed.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::cell::Cell;
use super::control::{Control, Reply};
use super::outgoing::answer;
use crate::error::{Error, Fault};
use crate::protocol::session::{Created, Verdict};
use crate::protocol::supervisor::{Origin, Record};
use crate::protocol::{Label, SessionId};

/// A way to a target, until that is revoked.
#[derive(Clone)]
pub struct Route {
    /// The target's inbox.
    pub cell: Arc<Cell>,
    /// What the target is told of mail by this route.
    pub verdict: Verdict,
    /// The target's epoch when the way was granted.
    epoch: u64,
}

impl Route {
    /// Grants a way. Decide the verdict after, or with nothing between: a later change revokes.
    pub fn new(cell: Arc<Cell>, verdict: Verdict) -> Self {
        let epoch = cell.epoch();
        Route { cell, verdict, epoch }
    }

    /// Whether the way still holds; otherwise it is to be asked for again.
    pub(super) fn is_current(&self) -> bool {
        self.cell.epoch() == self.epoch
    }
}

/// A request to the supervisor.
pub enum Request {
    /// May `from` send to `to`? Decided after edge, workspace and permission.
    Route {
        /// Who asks.
        from: SessionId,
        /// The target.
        to: SessionId,
        /// The answer.
        reply: RouteReply,
    },
    /// A way for mail that is already queued: there is always one.
    Delivery {
        /// Who asks.
        from: SessionId,
        /// The target.
        to: SessionId,
        /// The answer.
        reply: DeliveryReply,
    },
    /// Which session, of those that `from` may reach, has this label?
    Find {
        /// Who asks.
        from: SessionId,
        /// The label.
        label: Label,
        /// The answer; `NOT_FOUND`.
        reply: Reply<SessionId>,
    },
    /// Whom may `from` reach?
    Peers {
        /// Who asks.
        from: SessionId,
        /// The answer, in no order.
        reply: Reply<Vec<(SessionId, Label)>>,
    },
    /// Make a session.
    Create {
        /// How.
        created: Created,
        /// Answered when its own first frame is on disk.
        reply: Reply<SessionId>,
    },
    /// A session's actor has written its first frame, or could not.
    Made {
        /// The session.
        id: SessionId,
        /// What became of it.
        outcome: Result<(), Error>,
        /// Who waits.
        reply: Reply<SessionId>,
    },
    /// Let two sessions talk.
    Connect {
        /// One.
        one: SessionId,
        /// The other.
        other: SessionId,
        /// Answered when it is on disk.
        reply: Reply<()>,
    },
    /// Add sessions to a group.
    Group {
        /// The group.
        group: Label,
        /// Who joins.
        members: Vec<SessionId>,
        /// Answered when it is on disk.
        reply: Reply<()>,
    },
    /// Give the directory to a trace or scenario.
    Dedicate {
        /// Which.
        origin: Origin,
        /// Answered when it is on disk.
        reply: Reply<()>,
    },
    /// What is the directory for?
    Origin {
        /// The answer.
        reply: Reply<Option<Origin>>,
    },
    /// End a session.
    Close {
        /// Which.
        id: SessionId,
        /// Answered when its own journal says so.
        reply: Reply<()>,
    },
    /// A session's actor has written its end, or could not.
    Ended {
        /// The session.
        id: SessionId,
        /// What became of it.
        outcome: Result<(), Error>,
        /// Who waits.
        reply: Reply<()>,
    },
    /// Which session has this label?
    Lookup {
        /// The label.
        label: Label,
        /// The answer; `NOT_FOUND`.
        reply: Reply<SessionId>,
    },
    /// What is known of a session?
    Known {
        /// Which.
        id: SessionId,
        /// The answer; `NOT_FOUND`.
        reply: Reply<Record>,
    },
    /// Which sessions are there?
    List {
        /// The answer.
        reply: Reply<Vec<Record>>,
    },
    /// The cleaner wants the stream's snapshot.
    Snapshot,
    /// The bus closes: no session is made from now on.
    Quiesce {
        /// Told when every session that is being made has its outcome.
        quiesced: oneshot::Sender<()>,
    },
    /// The bus closes: end the stream's load.
    Stop {
        /// Told when the committer has ended it.
        ended: oneshot::Sender<()>,
    },
    /// A load of a session has ended and it is not loaded again until [`Control::Respawn`] or
    /// [`Control::Fail`] is given; or its agent could not be made, and it takes no turn.
    Fallen {
        /// The session.
        id: SessionId,
        /// Why.
        why: Fallen,
    },
}

impl Request {
    /// Answers with the fault: the supervisor cannot say anything else now. What nobody waits for
    /// is given back.
    pub(super) fn refuse(self, fault: &Fault) -> Option<Request> {
        let error = || Error::from(fault.clone());
        match self {
            Request::Route { reply, .. } => reply.answer(Err(error())),
            Request::Find { reply, .. }
            | Request::Create { reply, .. }
            | Request::Lookup { reply, .. } => answer(reply, Err(error())),
            Request::Connect { reply, .. }
            | Request::Group { reply, .. }
            | Request::Dedicate { reply, .. }
            | Request::Close { reply, .. }
            | Request::Ended { reply, .. } => answer(reply, Err(error())),
            Request::Peers { reply, .. } => answer(reply, Err(error())),
            Request::Origin { reply } => answer(reply, Err(error())),
            Request::Known { reply, .. } => answer(reply, Err(error())),
            Request::List { reply } => answer(reply, Err(error())),
            Request::Delivery { .. }
            | Request::Made { .. }
            | Request::Snapshot
            | Request::Quiesce { .. }
            | Request::Stop { .. }
            | Request::Fallen { .. } => return Some(self),
        }
        None
    }
}

/// Why a session has fallen.
#[derive(Debug, Clone)]
pub enum Fallen {
    /// The actor itself panicked.
    Panicked,
    /// The journal failed.
    Fault(Fault),
    /// The factory is missing, or could not make the agent. One that is being made fails; one that
    /// lives keeps its mail and takes no turn until its next load.
    Unmade {
        /// The code.
        code: String,
        /// The private reason, for the log.
        message: String,
    },
}

/// Asks the supervisor. Cheap to clone.
#[derive(Clone)]
pub struct SupervisorHandle(mpsc::UnboundedSender<Request>);

impl SupervisorHandle {
    /// A handle, and where its requests arrive.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Request>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (SupervisorHandle(sender), receiver)
    }

    /// Asks. Where the supervisor is gone, the request's reply is dropped, which answers it.
    pub fn ask(&self, request: Request) {
        if self.0.send(request).is_err() {
            tracing::debug!("the supervisor is gone");
        }
    }

    /// Which session, of those that `from` may reach, has this label?
    pub(super) fn find(
        &self,
        from: SessionId,
        label: Label,
    ) -> oneshot::Receiver<Result<SessionId, crate::error::Error>> {
        let (reply, answer) = oneshot::channel();
        self.ask(Request::Find { from, label, reply });
        answer
    }
}

/// Answers one [`Request::Route`].
pub struct RouteReply(Asked);

/// Answers one [`Request::Delivery`].
pub struct DeliveryReply(Asked);

struct Asked {
    cell: Arc<Cell>,
    target: SessionId,
    answered: bool,
}

impl Asked {
    fn answer(mut self, control: Control) {
        self.answered = true;
        self.cell.push(control);
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.answered {
            self.cell.push(Control::Unrouted { target: self.target });
        }
    }
}

impl RouteReply {
    pub(super) fn new(cell: &Arc<Cell>, target: SessionId) -> Self {
        RouteReply(Asked { cell: Arc::clone(cell), target, answered: false })
    }

    /// The route, or why not: [`Refused::not_found`](crate::error::Refused::not_found) for all that
    /// may not be told apart, a fault where the supervisor could not record what the answer waits
    /// for.
    pub fn answer(self, route: Result<Route, Error>) {
        let target = self.0.target;
        self.0.answer(Control::Routed { target, route });
    }
}

impl DeliveryReply {
    pub(super) fn new(cell: &Arc<Cell>, target: SessionId) -> Self {
        DeliveryReply(Asked { cell: Arc::clone(cell), target, answered: false })
    }

    /// The route with its verdict.
    pub fn answer(self, route: Route) {
        let target = self.0.target;
        self.0.answer(Control::Delivers { target, route });
    }
}
