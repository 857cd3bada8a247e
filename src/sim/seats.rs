//! Which session stands for which person or agent.
//!
//! **Invariant**: a session that a kill left half-made is failed for good and its label stays
//! taken; whoever was meant to have it gets a session under the next free label instead, and always
//! the same one. One that failed after it was made is not made again: its lines were sent.

use std::collections::{BTreeSet, HashMap};

use crate::bus::{Bus, Page, Record};
use crate::error::{Code, Error, Refused};
use crate::protocol::supervisor::Phase;
use crate::protocol::{Label, SessionId};

/// Stands between a label and the number of the try that made its session.
pub(super) const REMADE: &str = "-remade-";

/// The sessions there are, by label.
pub(super) struct Seats(HashMap<Label, Record>);

/// Where one is to be found.
pub(super) enum Seat {
    /// In this session.
    Taken(Seated),
    /// In one that is still to be made, under this label.
    Free(Label),
}

/// Who sits where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seated {
    /// The session.
    pub(super) id: SessionId,
    /// Its label: the wanted one, or the one it got after a failed making.
    pub(super) label: Label,
}

impl Seats {
    /// As the supervisor knows them.
    pub(super) async fn read(bus: &Bus) -> Result<Self, Error> {
        let records = bus.list().await?;
        for record in records.iter().filter(|record| record.phase == Phase::Failed) {
            let first = Page { before: None, limit: 1 };
            if !bus.history(record.created.id, first).await?.entries.is_empty() {
                let text = "a session of this run has failed for good; take an empty directory";
                return Err(Refused::new(Code::InvalidArgument, text).into());
            }
        }
        let records = records.into_iter();
        Ok(Seats(records.map(|record| (record.created.label.clone(), record)).collect()))
    }

    /// The seat of whoever is meant to have `wanted`.
    pub(super) fn of(&self, wanted: &Label) -> Result<Seat, Error> {
        let mut label = wanted.clone();
        let mut tries = 1;
        loop {
            match self.0.get(&label) {
                None => return Ok(Seat::Free(label)),
                Some(Record { created, phase, .. }) if *phase != Phase::Failed => {
                    return Ok(Seat::Taken(Seated { id: created.id, label }));
                }
                Some(_) => tries += 1,
            }
            label = Label::new(&format!("{wanted}{REMADE}{tries}"))?;
        }
    }
}

/// Sessions that were made, whatever became of them later.
pub(super) async fn made(bus: &Bus) -> Result<BTreeSet<SessionId>, Error> {
    let made = |record: &Record| record.phase != Phase::Failed;
    Ok(bus.list().await?.iter().filter(|record| made(record)).map(|r| r.created.id).collect())
}
