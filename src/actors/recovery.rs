//! What a bus does between opening its store and admitting sends.
//!
//! **Invariant**: half-made sessions are settled and every pending count is rebuilt before anything
//! is sent; running this twice gives the same.

use std::collections::{BTreeMap, HashMap};
use std::panic::resume_unwind;
use std::thread::ScopedJoinHandle;

use super::load::{self, Folded};
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
    /// Their journals: only a load changes one, so that the first needs not read it again.
    pub(crate) folded: HashMap<SessionId, Folded>,
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

/// A thread of its own is worth while for so many sessions.
const SHARE_LEAST: usize = 64;

/// The marks of a session: the highest decided number by sender.
type Marks = BTreeMap<SessionId, u64>;

/// *Blocking.* Folds every session with pending work, and the targets of its unsettled mail.
///
/// # Errors
/// The store's fault; a damaged session is not one, it is listed.
pub(crate) fn survey(
    store: &dyn Store,
    graph: &Graph,
    load_parallel: usize,
) -> Result<Survey, Fault> {
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
    let mut pending = Vec::new();
    for head in heads.iter().filter(|head| head.session != SessionId::SUPERVISOR) {
        if head.quarantined {
            survey.quarantined.push(head.session);
        } else if head.pending {
            pending.push(head.session);
        }
    }
    for (id, folded) in pending.iter().zip(fold_all(store, &pending, load_parallel)?) {
        survey.count(*id, folded, &mut marks, &mut queued);
    }
    for (from, to, settled, last) in queued {
        let known = match marks.entry(to) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(unknown) => {
                let folded = sound(store, to)?;
                unknown.insert(folded.map(|it| marks_of(&it.state)).unwrap_or_default())
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
        id: SessionId,
        folded: Option<Folded>,
        marks: &mut HashMap<SessionId, Marks>,
        queued: &mut Vec<(SessionId, SessionId, u64, u64)>,
    ) {
        let Some(folded) = folded else {
            self.quarantined.push(id);
            return;
        };
        let state = &folded.state;
        self.resume.push(id);
        *self.pending.entry(id).or_default() += state.n_untaken();
        for (target, lane) in state.lanes.iter().filter(|(_, lane)| !lane.unsettled.is_empty()) {
            queued.push((id, *target, lane.settled, lane.next - 1));
        }
        marks.insert(id, marks_of(state));
        self.folded.insert(id, folded);
    }
}

fn marks_of(state: &State) -> Marks {
    state.marks.iter().map(|(sender, mark)| (*sender, mark.high_water)).collect()
}

/// Folds each of `sessions`, in their order: many of them on several threads.
fn fold_all(
    store: &dyn Store,
    sessions: &[SessionId],
    threads_max: usize,
) -> Result<Vec<Option<Folded>>, Fault> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let n_threads = (sessions.len() / SHARE_LEAST).min(cores).min(threads_max).max(1);
    let fold = |share: &[SessionId]| share.iter().map(|id| sound(store, *id)).collect();
    let share = sessions.len().div_ceil(n_threads).max(1);
    std::thread::scope(|scope| {
        let mut shares = sessions.chunks(share);
        let own = shares.next().unwrap_or_default();
        let others: Vec<_> = shares
            .map(|share| {
                let thread = std::thread::Builder::new().name("callboard-replay".to_owned());
                (share, thread.spawn_scoped(scope, move || fold(share)))
            })
            .collect();
        let mut folded: Vec<_> = fold(own)?;
        for (share, thread) in others {
            let more: Result<Vec<_>, Fault> = match thread.map(ScopedJoinHandle::join) {
                Ok(Ok(more)) => more,
                Ok(Err(panic)) => resume_unwind(panic),
                // Without another thread it takes longer.
                Err(_) => fold(share),
            };
            folded.append(&mut more?);
        }
        Ok(folded)
    })
}

/// The state of a session as it is on disk; none without a journal, or when that is damaged.
fn sound(store: &dyn Store, id: SessionId) -> Result<Option<Folded>, Fault> {
    match load::replay(store, id) {
        Ok(folded) => Ok(folded),
        Err(fault) if fault.code == Code::JournalCorrupt => Ok(None),
        Err(fault) => Err(fault),
    }
}
