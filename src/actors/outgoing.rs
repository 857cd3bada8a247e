//! The ways out of one session: routes, and what waits for a route or for room.
//!
//! **Invariant**: per target, sends leave in the order they came; a target that is asked for or has
//! no room holds up nobody else. Whether a target may be reached is known before its size, fullness
//! or name is looked at.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::cell::Cell;
use super::control::{Control, Receipt, Reply, Send};
use super::request::{DeliveryReply, Request, Route, RouteReply};
use super::room::{Reservation, Staged};
use super::shared::Shared;
use crate::error::{Code, Ended, Error, Refused};
use crate::protocol::hash::IdHash;
use crate::protocol::session::{Addressed, Verdict};
use crate::protocol::{Draft, Label, Message, MessageId, SessionId, Source, SourceKind};

/// The ways out of one session.
pub(super) struct Outgoing {
    shared: Arc<Shared>,
    cell: Arc<Cell>,
    label: Label,
    ways: HashMap<SessionId, Way, IdHash>,
}

/// One target.
#[derive(Default)]
struct Way {
    /// For sends: granted by the supervisor.
    route: Option<Route>,
    asked: bool,
    /// Sends that wait for the route, or behind one that waits for room.
    waiting: VecDeque<Waiting>,
    /// The front of `waiting` has queued for room.
    awaits_room: bool,
    /// The next turn has queued for room.
    wished: bool,
    /// Room that was granted for the turn that begins next, or is open.
    granted: Option<Reservation>,
    /// For mail that is already queued.
    delivery: Option<Route>,
    delivery_asked: bool,
    undelivered: Vec<Parcel>,
}

/// What waits for a route.
enum Waiting {
    Send(Send, u32),
    Stage(Draft, u32, oneshot::Sender<Result<Staged, Error>>),
}

/// A dispatch that waits for its route.
pub(super) struct Parcel {
    pub(super) first: u64,
    pub(super) messages: Vec<Arc<Message>>,
    pub(super) settled: u64,
}

/// A send with its room: to be given to the machine.
pub(super) struct Prepared {
    pub(super) reply: Reply<Receipt>,
    pub(super) wait_for_room: bool,
    pub(super) staged: Staged,
}

impl Outgoing {
    pub(super) fn new(shared: &Arc<Shared>, cell: &Arc<Cell>, label: Label) -> Self {
        let (shared, cell) = (Arc::clone(shared), Arc::clone(cell));
        Outgoing { shared, cell, label, ways: HashMap::default() }
    }

    /// Whether something waits for a route or for room.
    pub(super) fn is_waiting(&self) -> bool {
        self.ways.values().any(|way| !way.waiting.is_empty() || !way.undelivered.is_empty())
    }

    /// Takes a send in; what can go at once is put into `ready`.
    pub(super) fn send(&mut self, send: Send, hop: u32, ready: &mut Vec<Prepared>) {
        let target = send.draft.to;
        if target == self.cell.id() {
            return answer(send.reply, Err(self_message()));
        }
        let way = self.ways.entry(target).or_default();
        if way.awaits_room
            && !send.wait_for_room
            && let Some(route) = way.route_now()
        {
            return match self.grant_for(target, send.kind) {
                Some(granted) => self.leave(&route, send, hop, granted, ready),
                None => answer(send.reply, Err(route.cell.room.is_waited_for().into())),
            };
        }
        way.waiting.push_back(Waiting::Send(send, hop));
        self.go_on(target, ready);
    }

    /// Takes a message to be staged in; answered through its reply, perhaps later.
    pub(super) fn stage(
        &mut self,
        draft: Draft,
        hop: u32,
        reply: oneshot::Sender<Result<Staged, Error>>,
        ready: &mut Vec<Prepared>,
    ) {
        let target = draft.to;
        let way = self.ways.entry(target).or_default();
        if way.awaits_room
            && let Some(route) = way.route_now()
        {
            let staged = match way.granted.take() {
                None => Err(route.cell.room.is_waited_for()),
                granted => self.prepare(&route, draft, (SourceKind::Agent, hop), granted),
            };
            // Nobody waits where the turn is gone.
            return drop(reply.send(staged.map_err(Error::from)));
        }
        way.waiting.push_back(Waiting::Stage(draft, hop, reply));
        self.go_on(target, ready);
    }

    /// Stages at once where the route is known and nobody waits for it; else gives the draft back.
    pub(super) fn try_stage(&mut self, draft: Draft, hop: u32) -> Result<Staged, NotStaged> {
        if draft.to == self.cell.id() {
            return Err(NotStaged::Error(self_message()));
        }
        let Some(way) = self.ways.get_mut(&draft.to).filter(|way| way.waiting.is_empty()) else {
            return Err(NotStaged::Ask(draft));
        };
        let Some(route) = way.route_now() else { return Err(NotStaged::Ask(draft)) };
        let granted = way.granted.take();
        self.prepare(&route, draft, (SourceKind::Agent, hop), granted)
            .map_err(|refused| NotStaged::Error(refused.into()))
    }

    /// The supervisor's word on sends to a target.
    pub(super) fn routed(
        &mut self,
        target: SessionId,
        route: Result<Route, Error>,
        ready: &mut Vec<Prepared>,
    ) {
        let Some(way) = self.ways.get_mut(&target) else { return };
        way.asked = false;
        match route {
            Ok(route) => {
                way.route = Some(route);
                self.go_on(target, ready);
            }
            Err(error) => {
                for waiting in std::mem::take(&mut way.waiting) {
                    waiting.refuse(error.clone());
                }
                if way.is_blank() {
                    // Whom nobody can reach leaves no trace.
                    self.ways.remove(&target);
                }
            }
        }
    }

    /// Room for one message came. Returns whether the next turn has waited for it.
    pub(super) fn granted(&mut self, target: SessionId, ready: &mut Vec<Prepared>) -> bool {
        let cell = self.shared.cell(target);
        let reservation = Reservation::of(&cell);
        let Some(way) = self.ways.get_mut(&target) else { return false };
        if way.wished {
            way.wished = false;
            way.granted = Some(reservation);
            return true;
        }
        if !way.awaits_room {
            return false;
        }
        way.awaits_room = false;
        // Where the route was revoked meanwhile, it is asked for again.
        if let Some(route) = way.route_now()
            && let Some(Waiting::Send(send, hop)) = way.waiting.pop_front()
        {
            self.leave(&route, send, hop, reservation, ready);
        }
        self.go_on(target, ready);
        false
    }

    /// Queues for room at a target that refused the turn.
    pub(super) fn wish(&mut self, target: SessionId) -> bool {
        let Some(way) = self.ways.get_mut(&target) else { return false };
        let Some(route) = way.route_now() else { return false };
        if way.wished {
            return true;
        }
        if route.cell.room.reserve_or_wait(&self.cell) {
            way.granted = Some(Reservation::of(&route.cell));
            return false;
        }
        way.wished = true;
        self.look_behind(&route);
        true
    }

    /// Who queued for room while the way was revoked, or while the store failed, may have come too
    /// late to be told.
    fn look_behind(&self, route: &Route) {
        if !route.is_current() || self.shared.store.fault().is_some() {
            self.cell.push(Control::Revoke { target: route.cell.id() });
        }
    }

    /// Gives back room that a turn was granted and has not used.
    pub(super) fn give_back_grants(&mut self) {
        for way in self.ways.values_mut() {
            way.granted = None;
        }
    }

    /// The way to this target is to be asked for again, by who waits for room there too. Returns
    /// whether the next turn has.
    pub(super) fn revoke(&mut self, target: SessionId, ready: &mut Vec<Prepared>) -> bool {
        let Some(way) = self.ways.get_mut(&target) else { return false };
        way.awaits_room = false;
        let wished = std::mem::replace(&mut way.wished, false);
        self.go_on(target, ready);
        wished
    }

    /// Lets what waits for a target go, in order, as far as it can.
    fn go_on(&mut self, target: SessionId, ready: &mut Vec<Prepared>) {
        loop {
            let Some(way) = self.ways.get_mut(&target) else { return };
            if way.awaits_room || way.waiting.is_empty() {
                return;
            }
            let Some(route) = way.route_now() else {
                if !std::mem::replace(&mut way.asked, true) {
                    let reply = RouteReply::new(&self.cell, target);
                    let from = self.cell.id();
                    self.shared.supervisor.ask(Request::Route { from, to: target, reply });
                }
                return;
            };
            match way.waiting.pop_front() {
                Some(Waiting::Send(send, hop)) => self.try_send(&route, send, hop, ready),
                Some(Waiting::Stage(draft, hop, reply)) => {
                    let granted = way.granted.take();
                    let staged = self.prepare(&route, draft, (SourceKind::Agent, hop), granted);
                    // Dropped with its room where the turn is gone.
                    drop(reply.send(staged.map_err(Error::from)));
                }
                None => return,
            }
        }
    }

    fn try_send(&mut self, route: &Route, send: Send, hop: u32, ready: &mut Vec<Prepared>) {
        if send.wait_for_room && send.reply.is_closed() {
            return;
        }
        if let Err(refused) = self.check(&send.draft) {
            return answer(send.reply, Err(refused.into()));
        }
        if !send.wait_for_room {
            let granted = self.grant_for(route.cell.id(), send.kind);
            return match granted.map_or_else(|| Reservation::take(&route.cell), Ok) {
                Ok(reservation) => self.leave(route, send, hop, reservation, ready),
                Err(refused) => answer(send.reply, Err(refused.into())),
            };
        }
        if let Some(fault) = self.shared.store.fault() {
            // There may never be room again.
            return answer(send.reply, Err(fault.into()));
        }
        if route.cell.room.reserve_or_wait(&self.cell) {
            return self.leave(route, send, hop, Reservation::of(&route.cell), ready);
        }
        if let Some(way) = self.ways.get_mut(&route.cell.id()) {
            way.refuse_waiting(&route.cell);
            way.waiting.push_front(Waiting::Send(send, hop));
            way.awaits_room = true;
        }
        self.look_behind(route);
    }

    /// Room that was granted to the turn that sends.
    fn grant_for(&mut self, target: SessionId, kind: SourceKind) -> Option<Reservation> {
        let way = self.ways.get_mut(&target).filter(|_| kind == SourceKind::Agent)?;
        way.granted.take()
    }

    fn leave(
        &self,
        route: &Route,
        send: Send,
        hop: u32,
        reservation: Reservation,
        ready: &mut Vec<Prepared>,
    ) {
        let Send { draft, wait_for_room, kind, reply } = send;
        if wait_for_room && reply.is_closed() {
            return;
        }
        let addressed = self.address(route, draft, (kind, hop));
        ready.push(Prepared { reply, wait_for_room, staged: Staged { addressed, reservation } });
    }

    fn prepare(
        &self,
        route: &Route,
        draft: Draft,
        (kind, hop): (SourceKind, u32),
        granted: Option<Reservation>,
    ) -> Result<Staged, Refused> {
        self.check(&draft)?;
        let reservation = match granted {
            Some(granted) => granted,
            None => Reservation::take(&route.cell)?,
        };
        Ok(Staged { addressed: self.address(route, draft, (kind, hop)), reservation })
    }

    fn check(&self, draft: &Draft) -> Result<(), Refused> {
        let (limit, size) =
            (self.shared.config.limits.message_max, Message::ENVELOPE + draft.body.stored_len());
        if size <= limit {
            return Ok(());
        }
        let text = "the message with its envelope is over the limit";
        Err(Refused::over(Code::MessageTooLarge, text, limit as u64, size as u64))
    }

    fn address(&self, route: &Route, draft: Draft, (kind, hop): (SourceKind, u32)) -> Addressed {
        let source = Source {
            kind,
            sender: self.cell.id(),
            name: self.label.clone(),
            correlation: None,
            hop,
        };
        let message = Message {
            id: MessageId::new(self.shared.clock.fresh()),
            source,
            sent: self.shared.clock.now(),
            body: draft.body,
        };
        Addressed { target: route.cell.id(), message: Arc::new(message) }
    }

    /// The way for mail that is already queued; where it is not known yet, the parcel waits.
    pub(super) fn deliver(&mut self, target: SessionId, parcel: Parcel) -> Option<(Route, Parcel)> {
        let way = self.ways.entry(target).or_default();
        if let Some(route) = way.route_now().or_else(|| way.delivery_now()) {
            return Some((route, parcel));
        }
        way.undelivered.push(parcel);
        if !std::mem::replace(&mut way.delivery_asked, true) {
            let reply = DeliveryReply::new(&self.cell, target);
            let from = self.cell.id();
            self.shared.supervisor.ask(Request::Delivery { from, to: target, reply });
        }
        None
    }

    /// The supervisor's word on mail that is already queued: what has waited for it.
    pub(super) fn delivers(&mut self, target: SessionId, route: Route) -> Vec<Parcel> {
        let way = self.ways.entry(target).or_default();
        way.delivery_asked = false;
        way.delivery = (route.verdict == Verdict::Allowed).then_some(route);
        std::mem::take(&mut way.undelivered)
    }

    /// The supervisor is gone: what waits for its word is answered; queued mail stays queued.
    pub(super) fn unrouted(&mut self, target: SessionId, ready: &mut Vec<Prepared>) {
        self.routed(target, Err(Ended::Closed.into()), ready);
        if let Some(way) = self.ways.get_mut(&target) {
            way.delivery_asked = false;
            way.undelivered.clear();
        }
    }

    /// The load ends: the sends that wait, which nothing has happened to.
    pub(super) fn into_waiting(self) -> Vec<Send> {
        let waiting = self.ways.into_values().flat_map(|way| way.waiting);
        let sends = waiting.filter_map(|waiting| match waiting {
            Waiting::Send(send, _) => Some(send),
            Waiting::Stage(..) => None,
        });
        sends.collect()
    }
}

impl Way {
    /// Whether nothing is known of the target and nothing waits for it.
    fn is_blank(&self) -> bool {
        let known = self.route.is_some() || self.delivery.is_some() || self.granted.is_some();
        let waits = self.asked || self.awaits_room || self.wished || self.delivery_asked;
        !known && !waits && self.waiting.is_empty() && self.undelivered.is_empty()
    }

    /// A send waits for room now: whoever is not to wait behind it is refused.
    fn refuse_waiting(&mut self, target: &Cell) {
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting {
                Waiting::Send(send, hop) if send.wait_for_room => {
                    self.waiting.push_back(Waiting::Send(send, hop));
                }
                refused => refused.refuse(target.room.is_waited_for().into()),
            }
        }
    }

    /// The way for sends, where it holds.
    fn route_now(&mut self) -> Option<Route> {
        self.route.take_if(|route| !route.is_current());
        self.route.clone()
    }

    /// The way for queued mail, where it holds.
    fn delivery_now(&mut self) -> Option<Route> {
        self.delivery.take_if(|route| !route.is_current());
        self.delivery.clone()
    }
}

/// Why a message was not staged at once.
pub(super) enum NotStaged {
    Error(Error),
    Ask(Draft),
}

impl Waiting {
    fn refuse(self, error: Error) {
        match self {
            Waiting::Send(send, _) => answer(send.reply, Err(error)),
            // Nobody waits where the turn is gone.
            Waiting::Stage(_, _, reply) => drop(reply.send(Err(error))),
        }
    }
}

/// Answers a caller; one that is gone needs no answer.
pub(super) fn answer<T>(reply: oneshot::Sender<Result<T, Error>>, answer: Result<T, Error>) {
    drop(reply.send(answer));
}

fn self_message() -> Error {
    Refused::new(Code::SelfMessage, "a session cannot send to itself").into()
}
