//! The supervisor: carries out what the graph's rules decide, and journals it in its own stream.
//!
//! **Invariant**: every answer waits for the newest append of the stream; a session's actor starts
//! only after its id and label are taken on disk. Bodies never pass through here.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::control::{Control, Reply};
use super::falls::Falls;
use super::request::{Request, Route};
use super::shared::Shared;
use super::stream::{Stream, Written};
use crate::error::{Code, Ended, Error, Fault, Refused};
use crate::protocol::SessionId;
use crate::protocol::session::backoff::backoff;
use crate::protocol::session::{Created, Verdict};
use crate::protocol::supervisor::{Event, Graph, Phase, rules};

/// Requests decided in one append.
const BATCH_MAX: usize = 1_024;

/// The supervisor's task.
pub(crate) struct Supervisor {
    pub(super) shared: Arc<Shared>,
    pub(super) graph: Graph,
    stream: Stream,
    requests: mpsc::UnboundedReceiver<Request>,
    /// Recent falls by session: by panics, which count against it, and by faults of the journal.
    pub(super) panics: Falls,
    pub(super) faults: Falls,
    /// Sessions being made, each with how often its outcome could not be recorded.
    making: HashMap<SessionId, u32>,
    /// The bus closes: who waits until none is being made. Nothing is made any more.
    quiescing: Vec<oneshot::Sender<()>>,
    /// Why the graph in memory is not what is on disk, and how often reading it has failed.
    unread: Option<(Fault, u32)>,
}

/// What one batch has decided.
#[derive(Default)]
pub(super) struct Decided {
    facts: Vec<Written>,
    /// Carried out when the facts are on disk, or told the fault.
    pub(super) after: Vec<After>,
}

pub(super) type After = Box<dyn FnOnce(&mut Supervisor, Result<(), Fault>)>;

impl Supervisor {
    /// A supervisor over a stream that was read back.
    pub(crate) fn new(
        shared: Arc<Shared>,
        (stream, graph): (Stream, Graph),
        requests: mpsc::UnboundedReceiver<Request>,
    ) -> Self {
        // The opening gives each half-made session its outcome.
        let making = half_made(&graph).map(|id| (id, 0)).collect();
        let (panics, faults, unread) = (Falls::default(), Falls::default(), None);
        let quiescing = Vec::new();
        Supervisor { shared, graph, stream, requests, panics, faults, making, quiescing, unread }
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
        if self.unread.is_some() {
            self.read().await;
        }
        if let Some((fault, n_tries)) = self.unread.clone() {
            self.turn_away(batch, &fault, n_tries);
        }
        let mut decided = Decided::default();
        let mut stop = None;
        let mut asked_snapshot = false;
        for request in batch.drain(..) {
            match request {
                Request::Stop { ended } => stop = Some(ended),
                Request::Snapshot => asked_snapshot = true,
                Request::Quiesce { quiesced } => self.quiescing.push(quiesced),
                other => self.decide(other, &mut decided),
            }
        }
        let outcome = self.journal(&decided.facts, asked_snapshot).await;
        for after in decided.after {
            after(self, outcome.clone());
        }
        if outcome.is_err() {
            self.settle_half_made();
        }
        if self.making.is_empty() {
            // Who waits may have given up.
            self.quiescing.drain(..).for_each(|quiesced| quiesced.send(()).unwrap_or_default());
        }
        let Some(ended) = stop else { return false };
        self.stream.end(Box::new(move || ended.send(()).unwrap_or_default()));
        true
    }

    async fn journal(&mut self, facts: &[Written], asked: bool) -> Result<(), Fault> {
        if facts.is_empty() && !asked {
            return Ok(());
        }
        let now = self.shared.clock.now();
        if !facts.is_empty()
            && let Err(fault) = self.stream.append(facts, now).await
        {
            self.read_back().await;
            self.shared.look_for_fault();
            return Err(fault);
        }
        // The facts are on disk: without a snapshot, all that was decided holds.
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
        self.read().await;
    }

    /// Reads the stream, whose load has ended. Where that fails, it is unread.
    async fn read(&mut self) {
        let (store, config) = (Arc::clone(&self.shared.store), self.shared.config.store.clone());
        let opened = tokio::task::spawn_blocking(move || Stream::open(store, &config)).await;
        let cut_off = |error: tokio::task::JoinError| {
            let text = format!("reading the supervisor's stream back was cut off: {error}");
            Err(Fault::new(Code::NotDurable, text))
        };
        match opened.unwrap_or_else(cut_off) {
            Ok((stream, graph)) => {
                (self.stream, self.graph) = (stream, graph);
                if self.unread.take().is_some() {
                    self.settle_half_made();
                }
            }
            Err(fault) => {
                tracing::error!(%fault, "the supervisor's stream cannot be read back");
                let n_tries = self.unread.as_ref().map_or(0, |(_, n_tries)| n_tries + 1);
                self.unread = Some((fault, n_tries));
            }
        }
    }

    /// The graph is not known: who waits is told so, and what must not be lost comes again.
    fn turn_away(&self, batch: &mut Vec<Request>, fault: &Fault, n_tries: u32) {
        let kept: Vec<Request> =
            batch.drain(..).filter_map(|request| request.refuse(fault)).collect();
        for request in kept {
            match request {
                Request::Stop { .. } => batch.push(request),
                // Nothing can be made known now.
                Request::Quiesce { quiesced } => quiesced.send(()).unwrap_or_default(),
                Request::Snapshot => {}
                other => self.ask_later(other, n_tries),
            }
        }
    }

    /// Asks itself again after a while, unless nothing can be recorded any more.
    fn ask_later(&self, request: Request, n_tries: u32) {
        if self.shared.store.fault().is_some() {
            return;
        }
        let wait = backoff(self.shared.config.limits.resend_after, n_tries);
        let handle = self.shared.supervisor.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(wait).await;
            handle.ask(request);
        });
    }

    /// After the stream was read back: a session that is half made there though its append had
    /// failed, so that nobody makes it, has failed.
    fn settle_half_made(&mut self) {
        if self.unread.is_some() {
            return;
        }
        let forgotten: Vec<SessionId> =
            half_made(&self.graph).filter(|id| !self.making.contains_key(id)).collect();
        for id in forgotten {
            self.making.insert(id, 0);
            let (reply, _) = oneshot::channel();
            let text = "the journal failed while the session was being made";
            let outcome = Err(Fault::new(Code::NotDurable, text).into());
            self.shared.supervisor.ask(Request::Made { id, outcome, reply });
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
                let per_event = rules::members_per_event(self.stream.frame_max());
                let events = self.graph.group(&group, &members, per_event);
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
            Request::Quiesce { .. } | Request::Stop { .. } | Request::Snapshot => {}
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
        let recorded = events.and_then(|events| self.record(events, decided));
        decided.answer(reply, recorded.map_err(Error::from));
    }

    /// Applies events and has them journaled with the batch; all of them or, where one does not fit
    /// a frame, none.
    fn record(&mut self, events: Vec<Event>, decided: &mut Decided) -> Result<(), Refused> {
        let facts: Vec<Written> =
            events.iter().map(|event| self.stream.written(event)).collect::<Result<_, _>>()?;
        for event in events {
            let applied = self.graph.apply(&event);
            assert!(applied.is_ok(), "{applied:?}: {event:?}");
        }
        decided.facts.extend(facts);
        Ok(())
    }

    /// As [`Supervisor::record`], of an event whose size is bounded.
    pub(super) fn record_small(&mut self, event: Event, decided: &mut Decided) {
        if let Err(refused) = self.record(vec![event], decided) {
            tracing::error!(%refused, "an event of the supervisor does not fit a frame");
        }
    }

    pub(super) fn failed(&self, id: SessionId, why: &str) -> Event {
        Event::Failed { id, reason: rules::reason(why, self.stream.frame_max()) }
    }

    fn create(&mut self, created: Created, reply: Reply<SessionId>, decided: &mut Decided) {
        if self.shared.is_closing() {
            return decided.answer(reply, Err(Ended::Closed.into()));
        }
        let sessions_max = self.shared.config.life.sessions_max;
        let events = self.graph.provision(created.clone(), sessions_max);
        if let Err(refused) = events.and_then(|events| self.record(events, decided)) {
            return decided.answer(reply, Err(refused.into()));
        }
        decided.after.push(Box::new(move |supervisor, outcome| match outcome {
            Ok(()) => supervisor.make(created, reply),
            Err(fault) => drop(reply.send(Err(fault.into()))),
        }));
    }

    /// Starts the session's actor, which writes its first frame, and comes back with the outcome.
    fn make(&mut self, created: Created, reply: Reply<SessionId>) {
        let (id, handle) = (created.id, self.shared.supervisor.clone());
        self.making.insert(id, 0);
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
        let kept = outcome.clone();
        // It may have failed already: its agent could not be made. Or it was recorded before,
        // though the journal had said otherwise, and was closed meanwhile.
        let outcome = match (outcome, phase) {
            (Ok(()), Some(Phase::Failed)) => Err(unmade()),
            (Ok(()), None) => Err(Refused::not_found().into()),
            (outcome, _) => outcome,
        };
        if phase == Some(Phase::Provisioning) {
            let event = match &outcome {
                Ok(()) => Event::Activated { id },
                Err(error) => self.failed(id, &error.to_string()),
            };
            self.record_small(event, decided);
        }
        decided.after.push(Box::new(move |supervisor, recorded| match recorded {
            Ok(()) => {
                supervisor.making.remove(&id);
                drop(reply.send(outcome.map(|()| id)));
            }
            Err(fault) => {
                drop(reply.send(Err(fault.into())));
                supervisor.make_known_later(id, kept);
            }
        }));
    }

    /// What became of a session could not be recorded: that is tried again, nobody waits for it.
    fn make_known_later(&mut self, id: SessionId, outcome: Result<(), Error>) {
        let n_tries = self.making.entry(id).or_default();
        let tries = *n_tries;
        *n_tries += 1;
        let (reply, _) = oneshot::channel();
        self.ask_later(Request::Made { id, outcome, reply }, tries);
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
        if let Err(refused) = self.record(events, decided) {
            return decided.answer(reply, Err(refused.into()));
        }
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
            self.record_small(Event::Closed { id }, decided);
        }
        decided.answer(reply, outcome);
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

fn half_made(graph: &Graph) -> impl Iterator<Item = SessionId> {
    let sessions = graph.sessions.iter();
    sessions.filter(|(_, record)| record.phase == Phase::Provisioning).map(|(id, _)| *id)
}

fn unmade() -> Error {
    let text = "no agent can be made for the session, which has failed; its label stays taken";
    Refused::new(Code::InvalidArgument, text).into()
}

fn closed() -> Error {
    Fault::new(Code::NotDurable, "the bus stopped before the session answered").into()
}
