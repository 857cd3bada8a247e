//! Gives orders to the clients and hears what became of them: the clock's side of a load.
//!
//! **Invariant**: a client has one send at most without its receipt; what is due meanwhile waits
//! in its lane and keeps the moment it was meant for. A send counts as done when its receipt or
//! its error has come.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::clients::Slots;
use super::gauge::{Gauge, Stage};
use super::order::Order;
use super::pacer::Pacer;
use super::pipe::Asks;
use super::plan::{Plan, Span};

/// Between two looks at the schedule, at least: so late a start may be.
const TICK: Duration = Duration::from_micros(100);

/// What became of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum News {
    /// It has come so far.
    Reached(Stage, Order),
    /// It was not sent, or it is not known whether it was.
    Failed(Order, String),
    /// It will not be handled.
    Dead(Order),
}

/// Who sends.
pub(super) enum Outlet {
    /// Clients in this process.
    Here(Arc<Slots>),
    /// Clients in the process that runs the bus; none while that is down.
    Apart(Mutex<Option<Asks>>),
}

/// The clock's side.
pub(super) struct Desk {
    pub(super) gauge: Gauge,
    plan: Plan,
    began: OnceLock<Instant>,
    lanes: Vec<Mutex<Lane>>,
    outlet: Outlet,
    n_due: AtomicU64,
    n_done: AtomicU64,
    /// The schedule is at its end.
    over: AtomicBool,
}

/// One client's orders.
#[derive(Default)]
struct Lane {
    /// The order that has no receipt yet.
    open: Option<Order>,
    /// Whether a running client has it.
    given: bool,
    /// When those that wait for it were meant to be sent.
    waiting: VecDeque<u64>,
    /// The last number given.
    number: u64,
    n_receipts: u64,
    /// The numbers that have no receipt and get none.
    failed: Vec<u64>,
}

impl Desk {
    pub(super) fn new(plan: &Plan, gauge: Gauge, outlet: Outlet) -> Self {
        Desk {
            gauge,
            plan: plan.clone(),
            began: OnceLock::new(),
            lanes: (0..plan.sessions).map(|_| Mutex::default()).collect(),
            outlet,
            n_due: AtomicU64::new(0),
            n_done: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// Microseconds since the load began.
    pub(super) fn now(&self) -> u64 {
        let time = self.began.get_or_init(Instant::now).elapsed();
        u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
    }

    /// Starts the clock and makes every start of the schedule at its moment. Blocks its thread
    /// until the last one.
    pub(super) fn follow(&self, pacer: &Pacer, stopped: &AtomicBool) {
        for index in 0..pacer.count() {
            let due = pacer.due(index);
            while self.now() < due {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let left = Duration::from_micros(due.saturating_sub(self.now()));
                std::thread::sleep(left.clamp(TICK, Duration::from_millis(50)));
            }
            // In a closed loop others may have used up the messages meanwhile.
            if self.plan.is_open() {
                self.n_due.fetch_add(1, Ordering::AcqRel);
                self.due(pacer.client(index), due);
            } else {
                self.next_of_loop(pacer.client(index));
            }
        }
        self.over.store(true, Ordering::Release);
    }

    /// Whether every message of the load is sent.
    pub(super) fn all_sent(&self) -> bool {
        let end = self.plan.end().map(|end| end.as_micros() as u64);
        let over = match (self.plan.is_open(), self.plan.span) {
            (true, _) => self.over.load(Ordering::Acquire),
            (false, Span::Messages(count)) => self.n_due.load(Ordering::Acquire) >= count,
            (false, Span::Time(_)) => end.is_some_and(|end| self.now() >= end),
        };
        over && self.n_done.load(Ordering::Acquire) >= self.n_due.load(Ordering::Acquire)
    }

    /// Hears what became of an order.
    pub(super) fn hear(&self, news: &News) {
        let now = self.now();
        match news {
            News::Reached(stage, order) => {
                self.gauge.reached(*stage, order, now);
                match stage {
                    Stage::Receipt => self.done(order, true),
                    Stage::Accepted => {}
                    Stage::Handled => self.next_of_loop(order.client),
                }
            }
            News::Failed(order, code) => {
                self.gauge.failed(code, now);
                self.done(order, false);
                self.next_of_loop(order.client);
            }
            News::Dead(order) => self.next_of_loop(order.client),
        }
    }

    /// The process that runs the bus is down; orders wait.
    pub(super) fn lose_clients(&self) {
        if let Outlet::Apart(asks) = &self.outlet {
            *held(asks) = None;
        }
        for lane in &self.lanes {
            held(lane).given = false;
        }
    }

    /// It runs, and nothing is pending there. `queued` is what each client has in its journal: it
    /// settles what became of a send whose receipt was lost.
    pub(super) fn regain_clients(&self, asks: Asks, queued: &HashMap<u32, u64>) {
        // Looked at before orders leave again: these wait for a handling that was never told.
        let idle: Vec<bool> = self.lanes.iter().map(|lane| held(lane).is_idle()).collect();
        if let Outlet::Apart(held_asks) = &self.outlet {
            *held(held_asks) = Some(asks);
        }
        for ((client, lane), was_idle) in (0..).zip(&self.lanes).zip(idle) {
            let settled = {
                let mut lane = held(lane);
                let is_queued = queued.get(&client).is_some_and(|count| *count > lane.n_receipts);
                match lane.open.filter(|_| !lane.given) {
                    Some(order) if is_queued => Some(order),
                    Some(order) => {
                        lane.given = self.give(order);
                        None
                    }
                    None => None,
                }
            };
            if let Some(order) = settled {
                self.hear(&News::Reached(Stage::Receipt, order));
            }
            if was_idle || settled.is_some() && held(lane).is_idle() {
                self.next_of_loop(client);
            }
        }
    }

    /// The numbers that have a receipt, by client: all up to the last one but the failed ones.
    pub(super) fn receipts(&self) -> Vec<(u64, Vec<u64>)> {
        let receipts = |lane: &Mutex<Lane>| {
            let lane = held(lane);
            (lane.number, lane.failed.clone())
        };
        self.lanes.iter().map(receipts).collect()
    }

    /// In a closed loop the client's next order follows, unless the load is over.
    fn next_of_loop(&self, client: u32) {
        if self.plan.is_open() {
            return;
        }
        let now = self.now();
        let is_late = self.plan.end().is_some_and(|end| u128::from(now) >= end.as_micros());
        let most = match self.plan.span {
            Span::Messages(count) => count,
            Span::Time(_) => u64::MAX,
        };
        let raise = |count: u64| (count < most).then_some(count + 1);
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        if !is_late && self.n_due.fetch_update(set, fetch, raise).is_ok() {
            self.due(client, now);
        }
    }

    /// An order is due: it leaves, or waits for the client's last one.
    fn due(&self, client: u32, intended: u64) {
        let Some(lane) = self.lane(client) else { return };
        let mut lane = held(lane);
        match lane.open {
            Some(_) => lane.waiting.push_back(intended),
            None => self.leave(&mut lane, client, intended),
        }
    }

    /// The client's order has its receipt or its error: the next one leaves.
    fn done(&self, order: &Order, receipt: bool) {
        let Some(lane) = self.lane(order.client) else { return };
        let mut lane = held(lane);
        if lane.open.is_none_or(|open| open.number != order.number) {
            return;
        }
        lane.open = None;
        lane.n_receipts += u64::from(receipt);
        if !receipt {
            lane.failed.push(order.number);
        }
        if let Some(intended) = lane.waiting.pop_front() {
            self.leave(&mut lane, order.client, intended);
        }
        self.n_done.fetch_add(1, Ordering::AcqRel);
    }

    fn leave(&self, lane: &mut Lane, client: u32, intended: u64) {
        lane.number += 1;
        let order = Order { client, number: lane.number, intended, started: self.now() };
        lane.open = Some(order);
        self.gauge.started(&order);
        lane.given = self.give(order);
    }

    /// Whether somebody has the order now.
    fn give(&self, order: Order) -> bool {
        match &self.outlet {
            Outlet::Here(slots) => {
                slots.put(order);
                true
            }
            Outlet::Apart(asks) => {
                let asks = held(asks);
                if let Some(asks) = &*asks {
                    asks.order(order);
                }
                asks.is_some()
            }
        }
    }

    fn lane(&self, client: u32) -> Option<&Mutex<Lane>> {
        self.lanes.get(usize::try_from(client).ok()?)
    }
}

impl Lane {
    /// Whether the client has begun and has nothing to send.
    fn is_idle(&self) -> bool {
        self.number > 0 && self.open.is_none() && self.waiting.is_empty()
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::plan::small;
    use super::*;

    fn desk(plan: &Plan) -> Desk {
        Desk::new(plan, Gauge::new(0).unwrap(), Outlet::Apart(Mutex::new(None)))
    }

    /// What is written to the process that runs the bus, once nobody asks any more.
    fn asked(desk: &Desk, queued: &[(u32, u64)]) -> Vec<String> {
        let (asks, written) = Asks::collect();
        desk.regain_clients(asks, &queued.iter().copied().collect());
        desk.lose_clients();
        written()
    }

    fn open_order(desk: &Desk, client: u32) -> Order {
        held(desk.lane(client).unwrap()).open.unwrap()
    }

    #[test]
    fn m114_an_order_that_waits_for_the_last_one_keeps_its_moment() {
        let desk = desk(&small());
        desk.due(0, 10);
        desk.due(0, 20);
        let first = open_order(&desk, 0);
        assert_eq!((first.number, first.intended), (1, 10));
        desk.hear(&News::Reached(Stage::Receipt, first));
        let second = open_order(&desk, 0);
        assert_eq!((second.number, second.intended), (2, 20));
    }

    #[test]
    fn a_receipt_that_a_kill_has_lost_is_found_in_the_journal_and_nothing_is_sent_twice() {
        let desk = desk(&small());
        let (asks, _) = Asks::collect();
        desk.regain_clients(asks, &HashMap::new());
        for client in [0, 1] {
            desk.due(client, 10);
        }
        desk.lose_clients();
        desk.due(2, 30);
        // Client 0 has its message in the journal, client 1 has not, client 2 has not sent yet.
        let started = [1, 2].map(|client| open_order(&desk, client).started);
        let asked = asked(&desk, &[(0, 1)]);
        let right = [format!("1 1 10 {}", started[0]), format!("2 1 30 {}", started[1])];
        assert_eq!(asked, right);
        assert_eq!(held(desk.lane(0).unwrap()).n_receipts, 1);
    }

    #[test]
    fn a_closed_loop_goes_on_after_a_handling_and_ends_with_its_messages() {
        let plan = Plan { rate: 0, span: Span::Messages(2), ..small() };
        let desk = desk(&plan);
        desk.next_of_loop(0);
        let first = open_order(&desk, 0);
        desk.hear(&News::Reached(Stage::Receipt, first));
        assert!(!desk.all_sent());
        desk.hear(&News::Reached(Stage::Handled, first));
        let second = open_order(&desk, 0);
        assert!(!desk.all_sent());
        desk.hear(&News::Failed(second, "NOT_DURABLE".to_owned()));
        assert!(desk.all_sent());
        assert_eq!(desk.receipts()[0], (2, vec![2]));
    }

    #[test]
    fn a_handling_that_a_kill_has_lost_does_not_stop_a_closed_loop() {
        let desk = desk(&Plan { rate: 0, ..small() });
        desk.next_of_loop(3);
        desk.hear(&News::Reached(Stage::Receipt, open_order(&desk, 3)));
        assert_eq!(asked(&desk, &[(3, 1)]).len(), 1);
        assert_eq!(open_order(&desk, 3).number, 2);
    }
}
