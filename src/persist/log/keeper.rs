//! Chores off the commit path: making segments ready, saving heads, freeing segments.
//!
//! **Boundary**: does what it is told, one chore at a time, and says how it went; what is to be
//! done is the committer's to decide.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use super::core::Core;
use super::freed::Freed;
use super::heads_file::SavedHeads;
use super::segment::{HISTORY_DIR, LOG_DIR, lock};
use crate::config::History;

/// One chore.
pub(crate) enum Chore {
    /// Make this segment ready.
    Prepare(u64),
    /// Save the heads; then these segments may be freed.
    Save(Box<SavedHeads>, Vec<u64>),
    /// Free these segments.
    Free(Vec<u64>),
}

/// How a chore went.
pub(crate) enum Done {
    /// The segment is ready, or not.
    Prepared(io::Result<()>),
    /// The heads are saved up to a position, or not; these segments may be freed.
    Saved(u64, Vec<u64>, io::Result<()>),
    /// The segments are freed, or not.
    Freed(io::Result<()>),
}

/// Who does the chores.
pub(crate) enum Keeper {
    /// A thread.
    Thread(Sender<Chore>, JoinHandle<()>),
    /// Whoever asks.
    Inline,
}

impl Keeper {
    /// Starts the thread.
    pub(crate) fn start(core: &Arc<Core>) -> io::Result<Keeper> {
        let (sender, receiver) = channel();
        let core = core.clone();
        let thread = thread::Builder::new()
            .name("callboard-keeper".to_owned())
            .spawn(move || serve(&core, &receiver))?;
        Ok(Keeper::Thread(sender, thread))
    }

    /// Has a chore done; how it went comes through the queue.
    pub(crate) fn ask(&self, core: &Core, chore: Chore) {
        match self {
            Keeper::Thread(sender, _) => {
                if let Err(unsent) = sender.send(chore) {
                    core.queue.done(carry_out(core, unsent.0));
                }
            }
            Keeper::Inline => core.queue.done(carry_out(core, chore)),
        }
    }

    /// Waits for the chores to be done and ends the thread.
    pub(crate) fn end(self) {
        match self {
            Keeper::Thread(sender, thread) => {
                drop(sender);
                if thread.join().is_err() {
                    tracing::error!("the keeper's thread panicked");
                }
            }
            Keeper::Inline => {}
        }
    }
}

fn serve(core: &Core, chores: &Receiver<Chore>) {
    while let Ok(chore) = chores.recv() {
        core.queue.done(carry_out(core, chore));
    }
}

/// Does a chore.
pub(crate) fn carry_out(core: &Core, chore: Chore) -> Done {
    match chore {
        Chore::Prepare(number) => Done::Prepared(core.segments.prepare(number)),
        Chore::Save(saved, free) => Done::Saved(saved.position, free, saved.write(&*core.disk)),
        Chore::Free(numbers) => Done::Freed(free(core, &numbers)),
    }
}

fn free(core: &Core, numbers: &[u64]) -> io::Result<()> {
    let history = core.config.history;
    let stay = core.segments.live().into_iter().filter(|number| !numbers.contains(number));
    Freed::around(stay).write(&*core.disk)?;
    for &number in numbers {
        let start = core.segments.start(number);
        let public = lock(&core.public);
        let is_read = public.is_pinned(start, start + core.segments.size);
        if !is_read {
            core.segments.retire(number, history);
        }
        // Loads begin under this lock, on arbiters: no file is touched while it is held.
        drop(public);
        if !is_read {
            core.segments.free(number, history)?;
        }
    }
    if history == History::Keep {
        core.disk.sync_dir(HISTORY_DIR)?;
    }
    core.disk.sync_dir(LOG_DIR)
}
