//! The clients: one task a session, which sends what it is told to, one message after the other.
//!
//! **Invariant**: an order that was put is sent once, unless the slots are closed before.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::desk::{Desk, News};
use super::gauge::Stage;
use super::order::Order;
use super::pipe::Tells;
use super::plan::Plan;
use crate::bus::{Bus, Observer};
use crate::protocol::{Draft, Message, SessionId};

/// Where each client finds its next order.
pub(super) struct Slots {
    slots: Vec<Slot>,
    closed: AtomicBool,
}

#[derive(Default)]
struct Slot {
    order: Mutex<Option<Order>>,
    put: Notify,
}

impl Slots {
    pub(super) fn new(sessions: usize) -> Self {
        let slots = (0..sessions).map(|_| Slot::default()).collect();
        Slots { slots, closed: AtomicBool::new(false) }
    }

    /// Gives a client its next order.
    pub(super) fn put(&self, order: Order) {
        let Some(slot) = usize::try_from(order.client).ok().and_then(|at| self.slots.get(at))
        else {
            return;
        };
        *slot.order.lock().unwrap_or_else(PoisonError::into_inner) = Some(order);
        slot.put.notify_one();
    }

    /// There are no more orders.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for slot in &self.slots {
            slot.put.notify_one();
        }
    }

    async fn take(&self, client: usize) -> Option<Order> {
        let slot = self.slots.get(client)?;
        loop {
            let order = slot.order.lock().unwrap_or_else(PoisonError::into_inner).take();
            if order.is_some() {
                return order;
            }
            if self.closed.load(Ordering::Acquire) {
                return None;
            }
            slot.put.notified().await;
        }
    }
}

/// Who is told what became of an order.
#[derive(Clone)]
pub(super) enum Ear {
    /// The clock's side, in this process.
    Here(Arc<Desk>),
    /// The process that started this one.
    Apart(Tells),
}

impl Ear {
    pub(super) fn tell(&self, news: News) {
        match self {
            Ear::Here(desk) => desk.hear(&news),
            Ear::Apart(tells) => tells.news(news),
        }
    }

    fn reached(&self, stage: Stage, message: &Message) {
        if let Some(order) = Order::read(message.body.as_str()) {
            self.tell(News::Reached(stage, order));
        }
    }
}

impl Observer for Ear {
    fn accepted(&self, message: &Message) {
        self.reached(Stage::Accepted, message);
    }

    fn handled(&self, message: &Message) {
        self.reached(Stage::Handled, message);
    }

    fn dead(&self, message: &Message) {
        if let Some(order) = Order::read(message.body.as_str()) {
            self.tell(News::Dead(order));
        }
    }
}

/// Starts a client for each session. They end when the slots are closed.
pub(super) fn start(
    (bus, ids): (&Bus, &Arc<[SessionId]>),
    plan: &Plan,
    slots: &Arc<Slots>,
    ear: &Ear,
) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    for (number, id) in ids.iter().enumerate() {
        let client = Client {
            bus: bus.clone(),
            ids: Arc::clone(ids),
            number,
            id: *id,
            plan: plan.clone(),
            ear: ear.clone(),
        };
        let slots = Arc::clone(slots);
        clients.spawn(async move {
            while let Some(order) = slots.take(client.number).await {
                client.send(order).await;
            }
        });
    }
    clients
}

struct Client {
    bus: Bus,
    ids: Arc<[SessionId]>,
    number: usize,
    id: SessionId,
    plan: Plan,
    ear: Ear,
}

impl Client {
    /// In an open loop a full target refuses, which is counted; in a closed one nobody is in a
    /// hurry, and the send waits for room.
    async fn send(&self, order: Order) {
        let Plan { sessions, pairs, seed, size, .. } = self.plan;
        let target = pairs.target(sessions, self.number, order.number, seed);
        let Some(target) = self.ids.get(target) else { return };
        let draft = Draft::text(*target, order.body(size));
        let sent = match self.plan.is_open() {
            true => self.bus.send(self.id, draft).await,
            false => self.bus.send_when_room(self.id, draft).await,
        };
        self.ear.tell(match sent {
            Ok(_) => News::Reached(Stage::Receipt, order),
            Err(error) => News::Failed(order, error.code().to_string()),
        });
    }
}
