//! Machines that break one rule each: the search must tell every one of them from the real one.

use std::collections::{BTreeMap, BTreeSet};

use callboard::protocol::session::{
    Action, Answer, Effects, Event, Input, Machine, Reason, Refusal,
};
use callboard::protocol::{SessionId, Timestamp};

/// Which rule is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// None: the real machine and a committer that keeps its word.
    None,
    /// Messages are dispatched when they are queued, before the flush.
    DispatchEarly,
    /// Acceptances are acknowledged before the flush.
    AnswerEarly,
    /// Only duplicates are acknowledged before the flush of what they are duplicates of.
    AnswerDuplicateEarly,
    /// Frames of a load that ended with a failed group are written later.
    LateFailed,
    /// A respawned actor does not wait for the frames of the one that panicked.
    LatePanicked,
    /// Unloading does not wait for the last ticket.
    LateUnloaded,
    /// Dispatches carry the settled mark as it is in memory.
    MarkEarly,
    /// What a busy target turned away is not sent again.
    OneBusy,
    /// A target accepts whatever arrives next or again.
    NoMark,
    /// A target knows duplicates by the last number it has seen, not by a mark.
    SeenWindow,
    /// A target accepts a number above the next.
    NoGapRule,
    /// Answers list no refusals.
    RefusalsLeftOut,
    /// A sender declares its own mail expired.
    SenderExpires,
}

/// What a broken machine remembers, while it is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Habit {
    /// The last number accepted, by sender.
    last: BTreeMap<SessionId, u64>,
    /// Targets that have been busy.
    busy: BTreeSet<SessionId>,
}

/// A step of a machine that breaks a rule.
pub(crate) fn step(
    broken: Broken,
    habit: &mut Habit,
    machine: &mut Machine,
    (inputs, now): (Vec<Input>, Timestamp),
) -> Effects {
    let extra = before(broken, habit, machine, &inputs);
    let mut effects = machine.step(inputs.clone(), now);
    if !extra.is_empty() {
        effects.events.extend(extra);
        if effects.ticket == 0 {
            effects.ticket = machine.tickets().0;
        }
    }
    let early = early(broken, machine, &inputs, &effects);
    effects.actions.splice(0..0, early);
    effects.actions.retain(|action| match action {
        Action::Dispatch { target, .. } => !habit.busy.contains(target),
        _ => true,
    });
    for action in &mut effects.actions {
        match (broken, action) {
            (Broken::MarkEarly, Action::Dispatch { target, settled, .. }) => {
                *settled = machine.state().lanes.get(target).map_or(0, |lane| lane.settled);
            }
            (Broken::RefusalsLeftOut, Action::Answer { answer, .. }) => answer.refused.clear(),
            _ => {}
        }
    }
    effects
}

/// Events that the real machine would not decide.
fn before(broken: Broken, habit: &mut Habit, machine: &Machine, inputs: &[Input]) -> Vec<Event> {
    let mut extra = Vec::new();
    let mut marks = BTreeMap::new();
    for input in inputs {
        match (broken, input) {
            (Broken::OneBusy, Input::Busy { target, .. }) => {
                habit.busy.insert(*target);
            }
            (Broken::SenderExpires, Input::Tick) => {
                for (target, lane) in &machine.state().lanes {
                    let n = lane.settled + 1;
                    if n < lane.next {
                        let refused = vec![Refusal { n, reason: Reason::Expired }];
                        extra.push(Event::Delivered { target: *target, upto: n, refused });
                    }
                }
            }
            (
                Broken::NoMark | Broken::SeenWindow | Broken::NoGapRule,
                Input::Mail { from, first, messages, settled, .. },
            ) => {
                let mark = marks.entry(*from).or_insert_with(|| high_water(machine, *from));
                for (n, message) in (*first..).zip(messages) {
                    let seen = habit.last.insert(*from, n) == Some(n);
                    let wrongly = match broken {
                        Broken::NoMark => n <= *mark,
                        Broken::SeenWindow => n <= *mark && !seen,
                        _ => n > *mark + 1,
                    };
                    *mark += u64::from(n == *mark + 1);
                    if wrongly {
                        let arrival = machine.state().arrivals + 1;
                        let (from, settled, message) = (*from, *settled, message.clone());
                        extra.push(Event::Accepted { from, n, arrival, settled, message });
                    }
                }
            }
            _ => {}
        }
    }
    extra
}

fn high_water(machine: &Machine, from: SessionId) -> u64 {
    machine.state().marks.get(&from).map_or(0, |mark| mark.high_water)
}

/// Actions that the real machine would hold back.
fn early(broken: Broken, machine: &Machine, inputs: &[Input], effects: &Effects) -> Vec<Action> {
    let state = machine.state();
    let of_input = |input: &Input| match (broken, input) {
        (Broken::DispatchEarly, Input::Send { sends, .. }) => {
            let target = sends.first()?.target;
            let lane = state.lanes.get(&target)?;
            let (first, settled) = (lane.settled + 1, lane.settled);
            let messages = lane.unsettled.iter().cloned().collect();
            Some(Action::Dispatch { target, first, messages, settled })
        }
        (Broken::AnswerEarly | Broken::AnswerDuplicateEarly, Input::Mail { from, .. }) => {
            if broken == Broken::AnswerDuplicateEarly && !effects.events.is_empty() {
                return None;
            }
            let mark = state.marks.get(from)?;
            let (upto, refused) = (mark.high_water, mark.refusals.clone());
            Some(Action::Answer { to: *from, answer: Answer { upto, refused, gap: None } })
        }
        _ => None,
    };
    inputs.iter().filter_map(of_input).collect()
}
