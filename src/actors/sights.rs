//! What has become durable, shown to the counters and to the observer.
//!
//! **Invariant**: nothing is shown before the frame that says so is on disk.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::observer::Sight;
use super::shared::Shared;
use crate::protocol::Message;
use crate::protocol::session::state::Counts;
use crate::protocol::session::{Effects, Event, Input, Machine};

/// What waits to be shown.
pub(super) struct Sights {
    shown: Counts,
    duplicates: u64,
    /// Totals after each append, oldest first.
    totals: VecDeque<(u64, Counts)>,
    observed: Option<Box<Observed>>,
}

/// What an observer is to be told.
#[derive(Default)]
struct Observed {
    waiting: VecDeque<(u64, Sight)>,
    /// Messages that the present step may end with, by arrival.
    ending: HashMap<u64, Arc<Message>>,
    /// The session is being closed: each flush buries more.
    closing: bool,
}

impl Sights {
    pub(super) fn new(machine: &Machine, observed: bool) -> Self {
        Sights {
            shown: machine.state().counts,
            duplicates: 0,
            totals: VecDeque::new(),
            observed: observed.then(Box::default),
        }
    }

    /// Before a step.
    pub(super) fn look(&mut self, machine: &Machine, inputs: &[Input]) {
        let Some(observed) = &mut self.observed else { return };
        let closes = |input: &Input| matches!(input, Input::Close { .. } | Input::Bury);
        observed.closing |= inputs.iter().any(closes);
        observed.closing &= !machine.state().closed;
        let closing = observed.closing;
        let ends = |input: &Input| match input {
            Input::Flushed { .. } => closing,
            Input::End(_) | Input::Fail { .. } | Input::Interrupt | Input::GiveBack => true,
            Input::Close { .. } | Input::Bury | Input::Resume { .. } => true,
            _ => false,
        };
        observed.ending.clear();
        if !inputs.iter().any(ends) {
            return;
        }
        let state = machine.state();
        let taken = state.turn.iter().flat_map(|turn| &turn.taken);
        let items = taken.chain(&state.inbox);
        observed.ending.extend(items.map(|item| (item.arrival, Arc::clone(&item.message))));
    }

    /// After a step.
    pub(super) fn note(&mut self, machine: &Machine, effects: &Effects) {
        if effects.events.is_empty() {
            return;
        }
        let counts = machine.state().counts;
        if self.totals.back().map_or(&self.shown, |(_, counts)| counts) != &counts {
            self.totals.push_back((effects.ticket, counts));
        }
        let Some(observed) = &mut self.observed else { return };
        let ticket = effects.ticket;
        for event in &effects.events {
            match event {
                Event::Accepted { arrival, message, .. } => {
                    observed.ending.insert(*arrival, Arc::clone(message));
                    observed.waiting.push_back((ticket, Sight::Accepted(Arc::clone(message))));
                }
                Event::TurnEnded { handled, .. } => {
                    let known = handled.iter().filter_map(|arrival| observed.ending.get(arrival));
                    let sights = known.map(|message| (ticket, Sight::Handled(Arc::clone(message))));
                    observed.waiting.extend(sights);
                }
                Event::Dead(dead) => {
                    let known = observed.ending.get(&dead.arrival);
                    let sight = known.map(|message| (ticket, Sight::Dead(Arc::clone(message))));
                    observed.waiting.extend(sight);
                }
                _ => {}
            }
        }
    }

    /// Gives back the room of what was shown.
    pub(super) fn slim(&mut self) {
        self.totals.shrink_to_fit();
        if let Some(observed) = &mut self.observed {
            observed.waiting.shrink_to_fit();
            observed.ending = HashMap::new();
        }
    }

    /// Shows what is on disk up to `flushed`.
    pub(super) fn publish(&mut self, shared: &Shared, machine: &Machine, flushed: u64) {
        let mut counts = None;
        while self.totals.front().is_some_and(|(ticket, _)| *ticket <= flushed) {
            counts = self.totals.pop_front().map(|(_, counts)| counts);
        }
        if let Some(counts) = counts {
            shared.counters.raise(&self.shown, &counts);
            self.shown = counts;
        }
        shared.counters.raise_duplicates(machine.duplicates() - self.duplicates);
        self.duplicates = machine.duplicates();
        let (Some(observed), Some(observer)) = (&mut self.observed, &shared.observer) else {
            return;
        };
        while observed.waiting.front().is_some_and(|(ticket, _)| *ticket <= flushed) {
            if let Some((_, sight)) = observed.waiting.pop_front() {
                sight.show(&**observer);
            }
        }
    }
}
