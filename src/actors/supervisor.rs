//! The supervisor: carries out what the graph's rules decide, and journals it in its own stream.
//!
//! **Invariant**: every answer waits for the newest append of the stream; a session's actor starts
//! only after its id and label are taken on disk. Bodies never pass through here.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::control::{Control, Reply};
use super::request::{Fallen, Request, Route};
use super::shared::Shared;
use super::stream::Stream;
use crate::error::{Code, Error, Fault, Refused};
use crate::protocol::session::{Created, Verdict};
use crate::protocol::supervisor::{Event, Graph, Phase};
use crate::protocol::{SessionId, Timestamp};

/// Requests decided in one append.
const BATCH_MAX: usize = 1_024;
/// The wait before a session whose journal failed is loaded again is doubled at most this often.
const DOUBLINGS_MAX: u32 = 6;

/// The supervisor's task.
pub(crate) struct Supervisor {
    shared: Arc<Shared>,
    graph: Graph,
    stream: Stream,
    requests: mpsc::UnboundedReceiver<Request>,
    /// Recent falls by session, oldest first.
    falls: HashMap<SessionId, VecDeque<Timestamp>>,
}

/// What one batch has decided.
#[derive(Default)]
struct Decided {
    events: Vec<Event>,
    /// Carried out when the events are on disk, or told the fault.
    after: Vec<After>,
}

type After = Box<dyn FnOnce(&Supervisor, Result<(), Fault>)>;

impl Supervisor {
    /// A supervisor over a stream that was read back.
    pub(crate) fn new(
        shared: Arc<Shared>,
        (stream, graph): (Stream, Graph),
        requests: mpsc::UnboundedReceiver<Request>,
    ) -> Self {
        Supervisor { shared, graph, stream, requests, falls: HashMap::new() }
    }

    /// Serves requests until every handle is gone or [`Request::Stop`] comes.
    pub(crate) async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        loop {
            let n_received = self.requests.recv_many(&mut batch, BATCH_MAX).await;
            if n_received == 0 || self.serve(&mut batch).await {
                return;
            }
        }
    }

    /// Decides a batch, journals it, answers it. True when it is time to stop.
    async fn serve(&mut self, batch: &mut Vec<Request>) -> bool {
        let mut decided = Decided::default();
        let mut stop = None;
        let mut asked_snapshot = false;
        for request in batch.drain(..) {
            match request {
                Request::Stop { ended } => stop = Some(ended),
                Request::Snapshot => asked_snapshot = true,
                other => self.decide(other, &mut decided),
            }
        }
        let outcome = self.journal(&decided.events, asked_snapshot).await;
        for after in decided.after {
            after(self, outcome.clone());
        }
        let Some(ended) = stop else { return false };
        self.stream.end(Box::new(move || ended.send(()).unwrap_or_default()));
        true
    }

    async fn journal(&mut self, events: &[Event], asked: bool) -> Result<(), Fault> {
        if events.is_empty() && !asked {
            return Ok(());
        }
        let now = self.shared.clock.now();
        if !events.is_empty()
            && let Err(fault) = self.stream.append(events, now).await
        {
            self.read_back().await;
            return Err(fault);
        }
        // The events are on disk: without a snapshot, all that was decided holds.
        if let Err(fault) = self.stream.snapshot(&self.graph, asked, now).await {
            tracing::warn!(%fault, "no snapshot of the supervisor's stream");
            if self.stream.has_failed() {
                self.read_back().await;
            }
        }
        Ok(())
    }

    /// After a fault: ends this load and reads the stream, so that memory is what the disk holds.
    async fn read_back(&mut self) {
        let (ended, over) = oneshot::channel();
        self.stream.end(Box::new(move || ended.send(()).unwrap_or_default()));
        // The committer always calls; if it is gone there is nothing to wait for.
        drop(over.await);
        let (store, config) = (Arc::clone(&self.shared.store), self.shared.config.store.clone());
        let opened = tokio::task::spawn_blocking(move || Stream::open(store, &config)).await;
        match opened {
            Ok(Ok((stream, graph))) => (self.stream, self.graph) = (stream, graph),
            Ok(Err(fault)) => {
                tracing::error!(%fault, "the supervisor's stream cannot be read back")
            }
            Err(error) => {
                tracing::error!(%error, "reading the supervisor's stream back was cut off")
            }
        }
    }

    fn decide(&mut self, request: Request, decided: &mut Decided) {
        match request {
            Request::Create { created, reply } => self.create(created, reply, decided),
            Request::Made { id, outcome, reply } => self.made(id, outcome, reply, decided),
            Request::Connect { one, other, reply } => {
                let events = self.graph.connect(one, other);
                self.settle(events, reply, decided);
            }
            Request::Group { group, members, reply } => {
                let events = self.graph.group(&group, &members);
                self.settle(events, reply, decided);
            }
            Request::Dedicate { origin, reply } => {
                let events = self.graph.dedicate(origin);
                self.settle(events, reply, decided);
            }
            Request::Close { id, reply } => self.close(id, reply, decided),
            Request::Ended { id, outcome, reply } => self.ended(id, outcome, reply, decided),
            Request::Fallen { id, why } => self.fallen(id, why, decided),
            Request::Route { from, to, reply } => {
                let route = self.graph.route(from, to);
                let route = route.map(|()| self.route_to(to, Verdict::Allowed));
                decided.after.push(Box::new(move |_, outcome| {
                    reply.answer(outcome.map_err(Error::from).and(route.map_err(Error::from)));
                }));
            }
            Request::Delivery { from: _, to, reply } => {
                let route = self.route_to(to, self.graph.verdict(to));
                decided.once_on_disk(move || reply.answer(route));
            }
            Request::Peers { from, reply } => {
                let peers = self.graph.peers(from);
                decided.answer(reply, Ok(peers));
            }
            Request::Find { from, label, reply } => {
                let found = self.graph.find(from, &label);
                decided.answer(reply, found.map_err(Error::from));
            }
            Request::Lookup { label, reply } => {
                let id = self.graph.labels.get(&label).copied();
                decided.answer(reply, id.ok_or_else(|| Refused::not_found().into()));
            }
            Request::Known { id, reply } => {
                let record = self.graph.sessions.get(&id).cloned();
                decided.answer(reply, record.ok_or_else(|| Refused::not_found().into()));
            }
            Request::List { reply } => {
                let records = self.graph.sessions.values().cloned().collect();
                decided.answer(reply, Ok(records));
            }
            Request::Origin { reply } => {
                let origin = self.graph.origin.clone();
                decided.answer(reply, Ok(origin));
            }
            Request::Stop { .. } | Request::Snapshot => {}
        }
    }

    fn route_to(&self, to: SessionId, verdict: Verdict) -> Route {
        Route::new(self.shared.cell(to), verdict)
    }

    /// Applies the events and answers when they are on disk.
    fn settle(
        &mut self,
        events: Result<Vec<Event>, Refused>,
        reply: Reply<()>,
        decided: &mut Decided,
    ) {
        match events {
            Ok(events) => {
                self.record(events, decided);
                decided.answer(reply, Ok(()));
            }
            Err(refused) => decided.answer(reply, Err(refused.into())),
        }
    }

    fn record(&mut self, events: Vec<Event>, decided: &mut Decided) {
        for event in events {
            let applied = self.graph.apply(&event);
            assert!(applied.is_ok(), "{applied:?}: {event:?}");
            decided.events.push(event);
        }
    }

    fn create(&mut self, created: Created, reply: Reply<SessionId>, decided: &mut Decided) {
        let sessions_max = self.shared.config.life.sessions_max;
        let events = match self.graph.provision(created.clone(), sessions_max) {
            Ok(events) => events,
            Err(refused) => return decided.answer(reply, Err(refused.into())),
        };
        self.record(events, decided);
        decided.after.push(Box::new(move |supervisor, outcome| match outcome {
            Ok(()) => supervisor.make(created, reply),
            Err(fault) => drop(reply.send(Err(fault.into()))),
        }));
    }

    /// Starts the session's actor, which writes its first frame, and comes back with the outcome.
    fn make(&self, created: Created, reply: Reply<SessionId>) {
        let (id, handle) = (created.id, self.shared.supervisor.clone());
        let (made, outcome) = oneshot::channel();
        self.shared.cell(id).push(Control::Create { created, reply: made });
        tokio::task::spawn_local(async move {
            let outcome = outcome.await.unwrap_or_else(|_| Err(closed()));
            handle.ask(Request::Made { id, outcome, reply });
        });
    }

    fn made(
        &mut self,
        id: SessionId,
        outcome: Result<(), Error>,
        reply: Reply<SessionId>,
        decided: &mut Decided,
    ) {
        let phase = self.graph.sessions.get(&id).map(|record| record.phase);
        // It may have failed already: its agent could not be made.
        let outcome = match (outcome, phase) {
            (Ok(()), Some(Phase::Failed)) => Err(unmade()),
            (outcome, _) => outcome,
        };
        match &outcome {
            Ok(()) => self.record(vec![Event::Activated { id }], decided),
            Err(error) if phase == Some(Phase::Provisioning) => {
                let reason = error.to_string();
                self.record(vec![Event::Failed { id, reason }], decided);
            }
            Err(_) => {}
        }
        decided.answer(reply, outcome.map(|()| id));
    }

    fn close(&mut self, id: SessionId, reply: Reply<()>, decided: &mut Decided) {
        let events = match self.graph.close(id) {
            Ok(events) => events,
            Err(refused) => return decided.answer(reply, Err(refused.into())),
        };
        let phase = self.graph.sessions.get(&id).map(|record| record.phase);
        if events.is_empty() && phase == Some(Phase::Closed) {
            return decided.answer(reply, Ok(()));
        }
        self.record(events, decided);
        decided.after.push(Box::new(move |supervisor, outcome| match outcome {
            Ok(()) => {
                supervisor.shared.cell(id).revoke_ways();
                supervisor.finish(id, reply);
            }
            Err(fault) => drop(reply.send(Err(fault.into()))),
        }));
    }

    /// Has the session's actor write its own end, and comes back with the outcome.
    pub(crate) fn finish(&self, id: SessionId, reply: Reply<()>) {
        let handle = self.shared.supervisor.clone();
        let (closed_by, outcome) = oneshot::channel();
        self.shared.cell(id).push(Control::Close { reply: closed_by });
        tokio::task::spawn_local(async move {
            let outcome = outcome.await.unwrap_or_else(|_| Err(closed()));
            handle.ask(Request::Ended { id, outcome, reply });
        });
    }

    fn ended(
        &mut self,
        id: SessionId,
        outcome: Result<(), Error>,
        reply: Reply<()>,
        decided: &mut Decided,
    ) {
        let phase = self.graph.sessions.get(&id).map(|record| record.phase);
        // One that could not be made has no journal to say so in, and no mail.
        let absent = |error: &Error| error.code() == Code::NotFound;
        let outcome = if outcome.as_ref().is_err_and(absent) { Ok(()) } else { outcome };
        if outcome.is_ok() && phase == Some(Phase::Closing) {
            self.record(vec![Event::Closed { id }], decided);
        }
        decided.answer(reply, outcome);
    }

    /// A session's load ended by itself: it is loaded again. One that panics does so within a
    /// bound, else it has failed; a journal that fails is not the session's doing, so there it only
    /// waits longer each time.
    fn fallen(&mut self, id: SessionId, why: Fallen, decided: &mut Decided) {
        let reason = match why {
            Fallen::Fault(_) => return self.respawn_later(id),
            Fallen::Panicked if self.count_fall(id) <= self.shared.config.life.respawn_max => {
                return self.shared.cell(id).push(Control::Respawn);
            }
            Fallen::Panicked => "its actor panicked too often".to_owned(),
            Fallen::Unmade { code, message } => format!("{code}: {message}"),
        };
        tracing::error!(session = %id, %reason, "the session has failed");
        let phase = self.graph.sessions.get(&id).map(|record| record.phase);
        if matches!(phase, Some(Phase::Provisioning | Phase::Active)) {
            self.record(vec![Event::Failed { id, reason }], decided);
        }
        decided.after.push(Box::new(move |supervisor, outcome| {
            let cell = supervisor.shared.cell(id);
            // Where that cannot be recorded, it has failed until the next opening.
            if outcome.is_ok() {
                cell.revoke_ways();
            }
            cell.push(Control::Fail);
        }));
    }

    fn respawn_later(&mut self, id: SessionId) {
        let (n_falls, cell) = (self.count_fall(id), self.shared.cell(id));
        if n_falls <= 1 {
            return cell.push(Control::Respawn);
        }
        cell.push(Control::Withhold);
        let doublings = (n_falls - 2).min(DOUBLINGS_MAX);
        let wait = self.shared.config.limits.resend_after * 2_u32.pow(doublings);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(wait).await;
            cell.push(Control::Respawn);
        });
    }

    /// Falls of a session within the window, with this one.
    fn count_fall(&mut self, id: SessionId) -> u32 {
        let (now, window) = (self.shared.clock.now(), self.shared.config.life.respawn_window);
        let falls = self.falls.entry(id).or_default();
        falls.push_back(now);
        falls.retain(|at| at.after(window) > now);
        u32::try_from(falls.len()).unwrap_or(u32::MAX)
    }
}

impl Decided {
    /// Runs when everything decided so far is on disk; on a fault it is dropped, which answers too.
    fn once_on_disk(&mut self, answer: impl FnOnce() + 'static) {
        self.after.push(Box::new(move |_, outcome| {
            if outcome.is_ok() {
                answer();
            }
        }));
    }

    /// Gives the answer when everything decided so far is on disk, or the fault.
    fn answer<T: 'static>(&mut self, reply: Reply<T>, answer: Result<T, Error>) {
        self.after.push(Box::new(move |_, outcome| match outcome {
            Ok(()) => drop(reply.send(answer)),
            Err(fault) => drop(reply.send(Err(fault.into()))),
        }));
    }
}

fn unmade() -> Error {
    let text = "no agent can be made for the session, which has failed; its label stays taken";
    Refused::new(Code::InvalidArgument, text).into()
}

fn closed() -> Error {
    Fault::new(Code::NotDurable, "the bus stopped before the session answered").into()
}
