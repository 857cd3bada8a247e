//! What a machine knows only while it is loaded: what is on disk, what is on its way, who waits.
//!
//! **Invariant**: losing all of this loses nothing: [`Live::resumed`] rebuilds a working one from
//! the state alone.

use std::collections::{BTreeMap, VecDeque};

use super::event::DeadReason;
use super::input::{Action, Call};
use super::state::{Lane, State};
use crate::protocol::id::{SessionId, Timestamp};

/// The volatile half of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Live {
    /// The number of this loading.
    pub(super) load: u64,
    /// The newest ticket given.
    pub(super) appended: u64,
    /// The newest ticket known to be on disk.
    pub(super) flushed: u64,
    /// Actions that wait for a ticket, oldest first.
    pub(super) deferred: VecDeque<(u64, Action)>,
    /// What each ticket moves in the outbox once it is on disk, oldest first.
    pub(super) moves: VecDeque<(u64, Move)>,
    /// By target.
    pub(super) lanes: BTreeMap<SessionId, LiveLane>,
    /// By sender of dead messages: the highest outcome number sent in this load.
    pub(super) reported: BTreeMap<SessionId, Unanswered>,
    /// Whether the body can take a turn.
    pub(super) ready: bool,
    /// What is accepted and not handled is being made dead, by this.
    pub(super) burying: Option<DeadReason>,
    /// Who waits for the end of that.
    pub(super) closing: Vec<Call>,
    /// Whether the agent's wish for a turn without mail waits for something outside.
    pub(super) wish_held: bool,
    /// Messages that were offered again after they were decided.
    pub(super) duplicates: u64,
    /// No turn begins before this, unless the front of the inbox was never tried.
    pub(super) not_before: Option<Timestamp>,
    /// When to look again at what is unanswered.
    pub(super) look_at: Option<Timestamp>,
}

/// What a ticket moves once it is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Move {
    /// Messages for the target are durable up to this number.
    Queued(SessionId, u64),
    /// The settled mark for the target is durable at this number.
    Settled(SessionId, u64),
}

/// What is known of one target in this load.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct LiveLane {
    /// Numbers up to this one are durable.
    pub(super) durable: u64,
    /// The settled mark as it is on disk.
    pub(super) settled: u64,
    /// Numbers up to this one are handed over and not known to be lost.
    pub(super) dispatched: u64,
    /// Whether the target had no room and has not called since.
    pub(super) held: bool,
    /// The last gap that was answered by sending again: mark and load of the target.
    pub(super) last_gap: Option<(u64, u64)>,
    /// Since when something is unanswered, and how often it was sent again since the last answer.
    pub(super) waiting: Option<Unanswered>,
}

/// Something that was sent and not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Unanswered {
    /// The highest number sent (reports).
    pub(super) upto: u64,
    /// When to send again.
    pub(super) again_at: Timestamp,
    /// How often that was done.
    pub(super) tries: u32,
}

impl Live {
    /// For a state that was just replayed: all of it is on disk, nothing is on its way.
    pub(super) fn resumed(state: &State, load: u64) -> Self {
        let lanes = state.lanes.iter().filter(|(_, lane)| !lane.unsettled.is_empty());
        let lanes = lanes.map(|(target, lane)| (*target, LiveLane::on_disk(lane)));
        Live { load, lanes: lanes.collect(), ..Live::default() }
    }

    /// What is known of a target. A lane that is not known yet has had no event in this load: all
    /// of it is on disk.
    pub(super) fn lane(&mut self, target: SessionId, lane: Option<&Lane>) -> &mut LiveLane {
        let on_disk = || lane.map(LiveLane::on_disk).unwrap_or_default();
        self.lanes.entry(target).or_insert_with(on_disk)
    }
}

impl LiveLane {
    fn on_disk(lane: &Lane) -> Self {
        LiveLane {
            durable: lane.next - 1,
            settled: lane.settled,
            dispatched: lane.settled,
            ..LiveLane::default()
        }
    }
}
