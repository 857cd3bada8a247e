//! Bringing a session into memory: made new, or read from its journal and folded.
//!
//! **Invariant**: a load begins only after the one before has ended; unreadable and absent are
//! never confused; files are read on blocking threads, a bounded number at a time.

use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::arbiter::Local;
use super::cell::{Cell, Creation, Phase};
use super::ending;
use super::request::Fallen;
use super::resident::Resident;
use super::session::Session;
use super::snapshot::Chain;
use crate::error::{Code, Fault};
use crate::persist::store::{Load, Replay, Store, Tickets};
use crate::protocol::SessionId;
use crate::protocol::session::{Event, Machine, State};

/// A session's journal, read and folded.
#[derive(Debug)]
pub(crate) struct Folded {
    pub(super) state: State,
    chain: Chain,
}

/// Begins to load a cold session.
pub(super) fn begin(local: &Rc<Local>, cell: &Arc<Cell>) {
    cell.set_phase(Phase::Loading);
    local.enter(cell);
    // Whatever the load comes to: after it the journal may be another.
    let folded = local.shared.take_folded(cell.id());
    let tickets: Arc<dyn Tickets> = Arc::clone(cell) as _;
    let load = match local.shared.store.begin(cell.id(), tickets) {
        Ok(load) => load,
        Err(fault) => return unreadable(local, cell, fault),
    };
    cell.proof.begin(load.number);
    match cell.take_creation() {
        Some(creation) => create(local, cell, load, creation),
        None => {
            let (local, cell) = (Rc::clone(local), Arc::clone(cell));
            tokio::task::spawn_local(async move { read(&local, &cell, load, folded).await });
        }
    }
}

fn create(local: &Rc<Local>, cell: &Arc<Cell>, load: Load, creation: Creation) {
    let limits = Arc::clone(&local.limits);
    let (machine, effects) = Machine::create(creation.created, limits, load.number);
    let machine = machine.within(local.shared.config.store.frame_max);
    let mut resident = Resident::new(local, cell, load, machine, Chain::default());
    resident.make(effects, creation.reply);
    start(cell, resident);
}

fn start(cell: &Arc<Cell>, resident: Resident) {
    cell.set_phase(Phase::Live);
    Session::run(resident);
}

async fn read(local: &Rc<Local>, cell: &Arc<Cell>, load: Load, folded: Option<Folded>) {
    let turn: Option<OwnedSemaphorePermit> =
        Arc::clone(&local.shared.loading).acquire_owned().await.ok();
    let folded = match folded {
        Some(folded) => Ok(Some(folded)),
        None => {
            let store = Arc::clone(&local.shared.store);
            let reading = tokio::task::spawn_blocking(move || {
                let folded = replay(&*store, load.session);
                drop(turn);
                folded
            });
            reading.await.unwrap_or_else(|_| Err(corrupt("the replay panicked")))
        }
    };
    let limits = Arc::clone(&local.limits);
    match folded {
        Ok(Some(Folded { state, chain })) => match Machine::new(state, limits) {
            Ok(machine) => {
                let machine = machine.within(local.shared.config.store.frame_max);
                let mut resident = Resident::new(local, cell, load, machine, chain);
                resident.resume();
                start(cell, resident);
            }
            Err(illegal) => unread(local, cell, load, corrupt(&illegal.to_string())),
        },
        Ok(None) => ending::absent(local, cell, load),
        Err(fault) => unread(local, cell, load, fault),
    }
}

/// The load has begun and cannot go on.
fn unread(local: &Rc<Local>, cell: &Arc<Cell>, load: Load, fault: Fault) {
    ending::without_machine(local, cell, load, ending::Why::Unreadable(fault));
}

/// The load has not begun.
pub(super) fn unreadable(local: &Rc<Local>, cell: &Arc<Cell>, fault: Fault) {
    local.leave(cell);
    tracing::error!(session = %cell.id(), %fault, "the journal cannot be read");
    if fault.code == Code::JournalCorrupt {
        cell.set_phase(Phase::Quarantined(fault));
    } else {
        cell.set_phase(Phase::Fallen(fault.clone()));
        ending::tell(local, cell, Fallen::Fault(fault));
    }
    cell.wake();
}

/// *Blocking.* Reads and folds; none: the session has no journal.
///
/// # Errors
/// As [`Store::replay`], and `JOURNAL_CORRUPT` where the journal does not fold.
pub(super) fn replay(store: &dyn Store, session: SessionId) -> Result<Option<Folded>, Fault> {
    let Replay { snapshot, frames } = store.replay(session)?;
    if snapshot.is_empty() && frames.is_empty() {
        return Ok(None);
    }
    let mut chain = Chain::after(snapshot.iter().map(Vec::len).sum());
    let mut state = fold_snapshot(&snapshot)?;
    for frame in &frames {
        chain.grow(frame.payload.len());
        let events: Vec<Event> = serde_json::from_slice(&frame.payload)
            .map_err(|error| corrupt(&format!("frame at {}: {error}", frame.position)))?;
        for event in &events {
            state
                .apply(event)
                .map_err(|illegal| corrupt(&format!("frame at {}: {illegal}", frame.position)))?;
        }
    }
    Ok(Some(Folded { state, chain }))
}

fn fold_snapshot(parts: &[Vec<u8>]) -> Result<State, Fault> {
    if parts.is_empty() {
        return Ok(State::default());
    }
    serde_json::from_slice(&parts.concat()).map_err(|error| corrupt(&format!("snapshot: {error}")))
}

fn corrupt(what: &str) -> Fault {
    Fault::new(Code::JournalCorrupt, format!("the session's journal does not replay: {what}"))
}

/// What a session's journal amounts to; none: it has no journal. *Blocking.*
///
/// # Errors
/// As [`Store::replay`], and `JOURNAL_CORRUPT` where the journal does not fold.
pub fn fold(store: &dyn Store, session: SessionId) -> Result<Option<State>, Fault> {
    Ok(replay(store, session)?.map(|folded| folded.state))
}
