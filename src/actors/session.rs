//! The actix actor of one session.
//!
//! **Invariant**: its own panic ends the load in the committer and is told to the supervisor; it
//! never takes the thread down. Its mailbox is not used: what it is told stands in its cell.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use actix::{Actor, ActorContext, ActorFuture, AsyncContext};

use super::ending::Why;
use super::resident::{After, Resident};
use super::wake::Batch;

/// The actor.
pub(super) struct Session(Option<Resident>);

impl Session {
    /// Starts the actor on this arbiter.
    pub(super) fn run(resident: Resident) {
        Session(Some(resident)).start();
    }
}

impl Actor for Session {
    type Context = actix::Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.spawn(Work);
    }
}

/// The actor's one future, woken when its cell has something.
struct Work;

impl ActorFuture<Session> for Work {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        session: &mut Session,
        ctx: &mut actix::Context<Session>,
        task: &mut Context<'_>,
    ) -> Poll<()> {
        let Some(resident) = &mut session.0 else { return Poll::Ready(()) };
        let _batch = Batch::begin();
        resident.cell.begin_round();
        resident.cell.set_waker(Some(task.waker()));
        let worked = catch_unwind(AssertUnwindSafe(|| resident.work(task)));
        let why = match worked {
            Ok(After::Wait) => return Poll::Pending,
            Ok(After::Again) => {
                resident.cell.wake();
                return Poll::Pending;
            }
            Ok(After::End(why)) => why,
            Err(_) => Why::Panicked,
        };
        resident.cell.set_waker(None);
        if let Some(resident) = session.0.take() {
            resident.end(why);
        }
        ctx.stop();
        Poll::Ready(())
    }
}
