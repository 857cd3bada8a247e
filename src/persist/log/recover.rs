//! What opening does to a log before anybody may write: heads, tail, cut, quarantine, rewrite.
//!
//! **Invariant**: running it again, also after a crash in the middle of it, gives the same
//! sessions with the same frames. Nothing below the proved position is ever changed.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use super::freed::first_loss;
use super::heads::Heads;
use super::heads_file::{LastGroup, SavedHeads};
use super::meta::{corrupt, unusable};
use super::scan::{Window, end_of_content};
use super::segment::{Segments, write_all, write_zeros};
use super::walk::{Walked, walk};
use crate::error::Fault;
use crate::persist::disk::Disk;
use crate::persist::store::RecoveryReport;
use crate::protocol::SessionId;

/// Where copies of cut tails lie.
pub(crate) const CUT_DIR: &str = "cut";

const PIECE: u64 = 1 << 20;

/// What the committer starts from.
pub(crate) struct Recovered {
    pub(crate) heads: Heads,
    /// Where the next group comes to lie; everything below is on disk.
    pub(crate) end: u64,
    /// What the saved heads cover; 0 where they were of no use.
    pub(crate) covered: u64,
    pub(crate) last: Option<LastGroup>,
    pub(crate) report: RecoveryReport,
    /// Why nothing may be written.
    pub(crate) read_only: Option<Fault>,
}

/// Recovers the log.
///
/// # Errors
/// `JOURNAL_VERSION`, or `STORE_UNUSABLE` when the disk fails.
pub(crate) fn recover(disk: &Arc<dyn Disk>, segments: &Segments) -> Result<Recovered, Fault> {
    let saved = SavedHeads::read(&**disk)?;
    let mut walked = walk(segments, saved)?;
    let cut = run_of_cuts(&**disk).map_err(|error| unusable("list the cut tails", &error))?;
    walked.run = walked.run.max(cut);
    quarantine(segments, &mut walked);
    if walked.unknown.is_none() {
        walked.unknown = first_loss(&**disk, segments, not_vouched_for(segments, &walked))?;
    }
    let mut read_only = unsound(&walked);
    let mut cut_bytes = 0;
    if read_only.is_none() {
        match settle_tail(&**disk, segments, &walked) {
            Ok(bytes) => cut_bytes = bytes,
            Err(error) => read_only = Some(tail_fault(&error)?),
        }
    }
    let mut quarantined: Vec<SessionId> =
        walked.heads.iter().filter(|entry| entry.quarantined).map(|entry| entry.session).collect();
    quarantined.sort_unstable();
    let report = RecoveryReport {
        run: walked.run + 1,
        groups: walked.groups,
        frames: walked.frames,
        bytes_read: segments.bytes_read(),
        cut_bytes,
        quarantined,
        read_only: read_only.as_ref().map(|fault| fault.text.clone()),
    };
    let Walked { heads, end, covered, last, .. } = walked;
    Ok(Recovered { heads, end, covered, last, report, read_only })
}

/// The segments of which only the log itself tells whose frames they hold: those that the saved
/// heads do not cover, up to where damage is cut off anyway.
fn not_vouched_for(segments: &Segments, walked: &Walked) -> (u64, u64) {
    (segments.of(walked.covered), walked.cut.map_or(u64::MAX, |cut| segments.of(cut)))
}

/// A full or read-only disk leaves the tail as it is: the store opens for reading.
fn tail_fault(error: &io::Error) -> Result<Fault, Fault> {
    let fault = unusable("put the log's tail in order", error);
    match error.kind() {
        io::ErrorKind::StorageFull
        | io::ErrorKind::QuotaExceeded
        | io::ErrorKind::ReadOnlyFilesystem => Ok(fault),
        _ => Err(fault),
    }
}

fn unsound(walked: &Walked) -> Option<Fault> {
    if let Some(position) = walked.unknown {
        return Some(corrupt(format!(
            "the log is damaged at {position} and it is unknown whose frames are lost; \
             opened for reading only",
        )));
    }
    let supervisor = walked.heads.get(SessionId::SUPERVISOR);
    supervisor.filter(|entry| entry.quarantined).map(|_| supervisor_damaged())
}

/// Without the supervisor's journal nobody knows who may talk to whom.
pub(crate) fn supervisor_damaged() -> Fault {
    corrupt("the supervisor's own journal is damaged; opened for reading only")
}

/// Marks the sessions whose replay needs a damaged frame, or one that is gone.
fn quarantine(segments: &Segments, walked: &mut Walked) {
    for (session, position) in std::mem::take(&mut walked.rot) {
        let low = walked.heads.get(session).map_or(0, |entry| entry.low);
        if position >= low {
            walked.heads.quarantine(session);
        }
    }
    if segments.live().first().is_none_or(|number| *number == 0) {
        return;
    }
    let begun_elsewhere = std::mem::take(&mut walked.begun_elsewhere).into_iter();
    let without_begin: Vec<SessionId> = begun_elsewhere
        .filter(|session| walked.heads.get(*session).is_some_and(|entry| entry.snapshot == 0))
        .chain(without_segment(segments, &walked.heads))
        .collect();
    for session in without_begin {
        walked.heads.quarantine(session);
    }
}

/// The sessions without a snapshot whose first segment is gone. Their frames are not read: what
/// the saved heads say of them was true when they were saved, and a replay looks for itself.
fn without_segment(segments: &Segments, heads: &Heads) -> Vec<SessionId> {
    let there: BTreeSet<u64> = segments.all().into_iter().collect();
    heads
        .iter()
        .filter(|entry| entry.snapshot == 0 && !there.contains(&segments.of(entry.low)))
        .map(|entry| entry.session)
        .collect()
}

/// Cuts the damage off an unproved tail and makes sure of what is left of it. Gives the bytes cut.
fn settle_tail(disk: &dyn Disk, segments: &Segments, walked: &Walked) -> io::Result<u64> {
    let mut cut_bytes = 0;
    if let Some(from) = walked.cut {
        let pieces = damaged_pieces(segments, from)?;
        cut_bytes = pieces.iter().map(|(from, to)| to - from).sum();
        copy_aside(disk, segments, &pieces, walked.run + 1)?;
        for (from, to) in &pieces {
            let file = segments.file(segments.of(*from))?;
            write_zeros(&*file, from % segments.size, to - from)?;
            file.sync()?;
        }
    }
    write_again(segments, walked.proved, walked.end)?;
    fill_up(segments, walked.end)?;
    Ok(cut_bytes)
}

/// What is not zero from `from` to the log's end, one piece a segment.
fn damaged_pieces(segments: &Segments, from: u64) -> io::Result<Vec<(u64, u64)>> {
    let mut window = Window::new(segments);
    let mut pieces = Vec::new();
    for number in segments.live() {
        let start = segments.start(number).max(from);
        let stop = segments.start(number) + segments.size;
        if start < stop {
            let end = end_of_content(&mut window, start, stop)?;
            if end > start {
                pieces.push((start, end));
            }
        }
    }
    Ok(pieces)
}

/// The greatest run whose opening cut a tail: it may have left nothing else behind, and what it
/// cut may have been the only trace of the run before.
fn run_of_cuts(disk: &dyn Disk) -> io::Result<u64> {
    let run_of = |name: String| name.split('-').nth(1)?.parse().ok();
    Ok(disk.list(CUT_DIR)?.into_iter().filter_map(run_of).max().unwrap_or(0))
}

fn copy_aside(
    disk: &dyn Disk,
    segments: &Segments,
    pieces: &[(u64, u64)],
    run: u64,
) -> io::Result<()> {
    disk.make_dir(CUT_DIR)?;
    let names = disk.list(CUT_DIR)?;
    for &(from, to) in pieces {
        let free = |n: &u32| !names.contains(&format!("{from:016x}-{run}-{n}"));
        let Some(n) = (0..u32::MAX).find(free) else { continue };
        let path = format!("{CUT_DIR}/{from:016x}-{run}-{n}");
        let copied = copy(disk, segments, (from, to), &path);
        if copied.is_err() {
            super::segment::remove_if_there(disk, &path)?;
        }
        copied?;
    }
    disk.sync_dir(CUT_DIR)
}

fn copy(
    disk: &dyn Disk,
    segments: &Segments,
    (from, to): (u64, u64),
    path: &str,
) -> io::Result<()> {
    let copy = disk.create(path)?;
    let mut at = from;
    while at < to {
        let mut bytes = vec![0; (to - at).min(PIECE) as usize];
        segments.read(at, &mut bytes)?;
        write_all(&*copy, &bytes, at - from)?;
        at += bytes.len() as u64;
    }
    copy.sync()
}

/// Writes what lies above the proved position once more and flushes it: after a failed flush the
/// cache may show what the disk does not hold.
fn write_again(segments: &Segments, proved: u64, end: u64) -> io::Result<()> {
    let mut at = proved;
    while at < end {
        let number = segments.of(at);
        let stop = end.min(segments.start(number) + segments.size);
        if !segments.is_live(at) {
            at = stop;
            continue;
        }
        let file = segments.file(number)?;
        while at < stop {
            let mut bytes = vec![0; (stop - at).min(PIECE) as usize];
            segments.read(at, &mut bytes)?;
            write_all(&*file, &bytes, at % segments.size)?;
            at += bytes.len() as u64;
        }
        file.sync()?;
    }
    Ok(())
}

/// Gives segments that are still to be written their full length, if a damaged tail lost it.
fn fill_up(segments: &Segments, end: u64) -> io::Result<()> {
    for number in segments.live().into_iter().filter(|number| *number >= segments.of(end)) {
        let file = segments.file(number)?;
        let len = file.len()?;
        if len < segments.size {
            write_zeros(&*file, len, segments.size - len)?;
            file.sync()?;
        }
    }
    Ok(())
}
