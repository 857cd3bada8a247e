//! Who may watch the data path.
//!
//! **Boundary**: called from arbiter threads after the fact is durable; must be cheap and not
//! block. A panic in it is caught: it costs the session nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::protocol::Message;

/// Watches messages. What panics is not shown again.
pub trait Observer: Send + Sync + 'static {
    /// The acceptance is durable.
    fn accepted(&self, _message: &Message) {}
    /// The turn that took it has ended, durably.
    fn handled(&self, _message: &Message) {}
    /// It will not be handled; durable.
    fn dead(&self, _message: &Message) {}
}

/// One thing to tell an observer.
#[derive(Debug, Clone)]
pub(super) enum Sight {
    Accepted(Arc<Message>),
    Handled(Arc<Message>),
    Dead(Arc<Message>),
}

impl Sight {
    pub(super) fn show(&self, observer: &dyn Observer) {
        let shown = catch_unwind(AssertUnwindSafe(|| match self {
            Sight::Accepted(message) => observer.accepted(message),
            Sight::Handled(message) => observer.handled(message),
            Sight::Dead(message) => observer.dead(message),
        }));
        if shown.is_err() {
            tracing::error!("the observer panicked");
        }
    }
}
