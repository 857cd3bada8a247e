//! How large a frame may get: asked before the step, so that there is room for what is decided.
//!
//! **Invariant**: the events of a step, serialised, are never longer than the bound of its inputs.

use super::event::{AgentState, Failure, Refusal};
use super::input::{Addressed, End, Input};
use super::machine::Machine;
use super::turn::FAILURE_CHARS_MAX;
use crate::protocol::message::Message;

/// Everything but the lists in one event, and the commas and brackets around it, in bytes.
const EVENT: usize = 192;
/// A refusal in a list, or an event that refuses.
const REFUSAL: usize = 48;
/// An outcome in a list; with `EVENT` an event that buries.
const OUTCOME: usize = 128;
/// Messages that the end of a session buries in one frame, however large that may be.
const BURIALS_MAX: usize = 256;
/// Outcomes that are told at once, however large a frame may be.
const OUTCOMES_MAX: usize = 64;

/// What one frame can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fit {
    /// So many inputs from the front; at least one where there is any.
    pub inputs: usize,
    /// The frame's events take at most this many bytes; 0: no event is possible.
    pub bytes: usize,
}

impl Machine {
    /// How many of these inputs fit one frame of `frame_max` bytes, and how large it may get.
    pub fn fit<'a>(&self, inputs: impl IntoIterator<Item = &'a Input>, frame_max: usize) -> Fit {
        let mut fit = Fit { inputs: 0, bytes: 0 };
        let (mut n_mail, mut bytes, mut may_begin) = (0, 0, false);
        for input in inputs {
            bytes += self.bound(input);
            if let Input::Mail { messages, .. } = input {
                n_mail += messages.len();
            }
            may_begin |= input.may_begin_turn();
            let turn = if may_begin { self.turn_bound(n_mail) } else { 0 };
            if fit.inputs > 0 && bytes + turn > frame_max {
                break;
            }
            fit = Fit { inputs: fit.inputs + 1, bytes: bytes + turn };
        }
        fit
    }

    /// Whether a step with this input alone may decide something, and so needs room for a frame.
    pub fn needs_room(&self, input: &Input) -> bool {
        self.fit([input], usize::MAX).bytes > 0
    }

    /// What the beginning of a turn may take, or mail that is offered to the open one.
    fn turn_bound(&self, n_mail: usize) -> usize {
        let open = self.state.turn.as_ref();
        let n_taken = open.map_or(0, |turn| turn.taken.len());
        let n_waiting = self.state.inbox.len() + n_taken + n_mail;
        if n_waiting == 0 && open.is_none() && self.state.again.is_none() {
            return 0;
        }
        EVENT + self.arrivals(n_waiting.min(self.limits.steers_max), n_mail)
    }

    /// A list of arrivals.
    fn arrivals(&self, count: usize, n_mail: usize) -> usize {
        let highest = self.state.arrivals + n_mail as u64;
        let digits = highest.checked_ilog10().map_or(1, |log| log as usize + 1);
        count * (digits + 1)
    }

    fn bound(&self, input: &Input) -> usize {
        match input {
            Input::Send { sends, .. } => sends_bound(sends),
            Input::Mail { messages, .. } => messages.iter().map(|m| EVENT + m.size()).sum(),
            Input::Answer { answer, .. } => refusals_bound(&answer.refused),
            Input::Report { outcomes, .. } => EVENT + outcomes.len() * OUTCOME,
            Input::ReportAnswer { .. } => EVENT,
            Input::End(end) => self.end_bound(end),
            Input::Fail { failure, .. } => failure_bound(failure) + self.broken_off_bound(),
            Input::Interrupt | Input::GiveBack | Input::Resume { .. } => self.broken_off_bound(),
            Input::Close { .. } | Input::Bury => self.broken_off_bound() + self.burials_bound(),
            Input::Flushed { .. } if self.live.burying.is_some() => self.burials_bound(),
            Input::Flushed { .. }
            | Input::Busy { .. }
            | Input::Room { .. }
            | Input::Lost { .. }
            | Input::Ready
            | Input::NotReady
            | Input::HoldWish { .. }
            | Input::Steer { .. }
            | Input::Inspect { .. }
            | Input::Tick => 0,
        }
    }

    /// Of a turn's end; the most that its messages and its state may take.
    fn end_bound(&self, end: &End) -> usize {
        let n_taken = self.state.turn.as_ref().map_or(0, |turn| turn.taken.len());
        let state = end.state.as_ref().map_or(0, state_bound);
        EVENT + self.arrivals(n_taken, 0) + state + sends_bound(&end.sends)
    }

    /// Messages that the end of a session buries in one frame.
    pub(super) fn burials_max(&self) -> usize {
        (self.frame_max.saturating_sub(2 * EVENT) / (EVENT + OUTCOME)).clamp(1, BURIALS_MAX)
    }

    /// Outcomes that are told at once: their receiver notes them in one frame.
    pub(super) fn outcomes_max(&self) -> usize {
        (self.frame_max.saturating_sub(2 * EVENT) / OUTCOME).clamp(1, OUTCOMES_MAX)
    }

    /// Of one frame of burials.
    fn burials_bound(&self) -> usize {
        let n_taken = self.state.turn.as_ref().map_or(0, |turn| turn.taken.len());
        let n_buried = (self.state.inbox.len() + n_taken).min(self.burials_max());
        EVENT + n_buried * (EVENT + OUTCOME)
    }

    fn broken_off_bound(&self) -> usize {
        let Some(turn) = &self.state.turn else { return 0 };
        let items = turn.taken.iter().chain(&self.state.inbox);
        let n_spent = items.filter(|item| item.tries() >= self.limits.attempts_max).count();
        EVENT + n_spent * (EVENT + OUTCOME)
    }
}

impl Input {
    /// Whether a turn may begin in a step with this input; one that only looks, or only tells what
    /// is on disk, needs no room and begins none, even where a backoff is over.
    pub(super) fn may_begin_turn(&self) -> bool {
        !matches!(self, Input::Flushed { .. } | Input::Inspect { .. } | Input::Busy { .. })
    }
}

/// A failure as it is kept, with its message cut.
fn failure_bound(failure: &Failure) -> usize {
    let kept = failure.message.chars().take(FAILURE_CHARS_MAX);
    failure.code.chars().chain(kept).map(written_len).sum()
}

/// A character in a JSON text.
fn written_len(character: char) -> usize {
    if character.is_control() { 6 } else { character.len_utf8() + 1 }
}

fn state_bound(state: &AgentState) -> usize {
    state.0.get().len()
}

fn sends_bound(sends: &[Addressed]) -> usize {
    sends.iter().map(|send| queued_bound(&send.message)).sum()
}

/// What one queued message takes in a frame, at most.
pub fn queued_bound(message: &Message) -> usize {
    EVENT + message.size()
}

fn refusals_bound(refusals: &[Refusal]) -> usize {
    EVENT + refusals.len() * REFUSAL
}
