//! What a bus does between opening its store and admitting sends.
//!
//! **Invariant**: half-made sessions are settled and every pending count is rebuilt before anything
//! is sent; running this twice gives the same.

use std::collections::{BTreeMap, HashMap};

use super::load;
use crate::error::{Code, Fault};
use crate::persist::store::Store;
use crate::protocol::SessionId;
use crate::protocol::session::State;
use crate::protocol::supervisor::{Graph, Phase};

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Mail that counts against each target's limit.
    pub(crate) pending: HashMap<SessionId, u64>,
    /// Sessions with work to go on with.
    pub(crate) resume: Vec<SessionId>,
    /// Half-made sessions, each with whether its own journal proves it.
    pub(crate) half_made: Vec<(SessionId, bool)>,
    /// Sessions whose end was decided and not finished.
    pub(crate) closing: Vec<SessionId>,
    /// Sessions that take no turn any more: closing or closed.
    pub(crate) ended: Vec<SessionId>,
    /// Sessions that have failed, so that what they have accepted is dead.
    pub(crate) failed: Vec<SessionId>,
    /// Sessions whose journal is damaged where their replay needs it.
    pub(crate) quarantined: Vec<SessionId>,
}

/// The marks of a session: the highest decided number by sender.
type Marks = BTreeMap<SessionId, u64>;

/// *Blocking.* Folds every session with pending work, and the targets of its unsettled mail.
///
/// # Errors
/// The store's fault; a damaged session is not one, it is listed.
pub(crate) fn survey(store: &dyn Store, graph: &Graph) -> Result<Survey, Fault> {
    let mut survey = Survey::default();
    let heads = store.heads();
    let has_journal: HashMap<SessionId, bool> =
        heads.iter().map(|head| (head.session, !head.quarantined)).collect();
    for (id, record) in &graph.sessions {
        match record.phase {
            Phase::Provisioning => {
                let proven = has_journal.get(id).copied().unwrap_or(false);
                survey.half_made.push((*id, proven));
            }
            Phase::Closing => {
                survey.closing.push(*id);
                survey.ended.push(*id);
            }
            Phase::Failed => survey.failed.push(*id),
            Phase::Closed => survey.ended.push(*id),
            Phase::Active => {}
        }
    }
    let mut marks: HashMap<SessionId, Marks> = HashMap::new();
    let mut queued: Vec<(SessionId, SessionId, u64, u64)> = Vec::new();
    for head in heads.iter().filter(|head| head.session != SessionId::SUPERVISOR) {
        if head.quarantined {
            survey.quarantined.push(head.session);
        } else if head.pending {
            survey.count(store, head.session, &mut marks, &mut queued)?;
        }
    }
    for (from, to, settled, last) in queued {
        let known = match marks.entry(to) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(unknown) => {
                unknown.insert(marks_of(&sound(store, to)?.unwrap_or_default()))
            }
        };
        let decided = known.get(&from).copied().unwrap_or(0).max(settled);
        *survey.pending.entry(to).or_default() += last.saturating_sub(decided);
    }
    Ok(survey)
}

impl Survey {
    fn count(
        &mut self,
        store: &dyn Store,
        id: SessionId,
        marks: &mut HashMap<SessionId, Marks>,
        queued: &mut Vec<(SessionId, SessionId, u64, u64)>,
    ) -> Result<(), Fault> {
        let Some(state) = sound(store, id)? else {
            self.quarantined.push(id);
            return Ok(());
        };
        self.resume.push(id);
        *self.pending.entry(id).or_default() += state.n_untaken();
        for (target, lane) in state.lanes.iter().filter(|(_, lane)| !lane.unsettled.is_empty()) {
            queued.push((id, *target, lane.settled, lane.next - 1));
        }
        marks.insert(id, marks_of(&state));
        Ok(())
    }
}

fn marks_of(state: &State) -> Marks {
    state.marks.iter().map(|(sender, mark)| (*sender, mark.high_water)).collect()
}

/// The state of a session as it is on disk; none without a journal, or when that is damaged.
fn sound(store: &dyn Store, id: SessionId) -> Result<Option<State>, Fault> {
    match load::fold(store, id) {
        Ok(state) => Ok(state),
        Err(fault) if fault.code == Code::JournalCorrupt => Ok(None),
        Err(fault) => Err(fault),
    }
}
