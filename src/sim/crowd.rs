//! Many calls to the bus at once, a bounded number at a time.
//!
//! **Invariant**: the first error ends it, and calls that are under way then are dropped.

use std::future::Future;

use tokio::task::{JoinError, JoinSet};

use crate::error::{Ended, Error};

/// Calls under way at once: enough for a group of commits, few enough to wait for.
pub(super) const WIDTH: usize = 256;

/// Calls `call` for each item and gives the answers in no order.
///
/// # Errors
/// The first error of a call; `CLOSED` if one panicked or was cancelled.
pub(super) async fn for_each<T, A, F>(
    items: impl IntoIterator<Item = T>,
    call: impl Fn(T) -> F,
) -> Result<Vec<A>, Error>
where
    A: Send + 'static,
    F: Future<Output = Result<A, Error>> + Send + 'static,
{
    let mut calls = JoinSet::new();
    let mut answers = Vec::new();
    for item in items {
        if calls.len() >= WIDTH
            && let Some(answer) = calls.join_next().await
        {
            answers.push(settled(answer)?);
        }
        calls.spawn(call(item));
    }
    while let Some(answer) = calls.join_next().await {
        answers.push(settled(answer)?);
    }
    Ok(answers)
}

/// The answer of a finished call.
pub(super) fn settled<A>(answer: Result<Result<A, Error>, JoinError>) -> Result<A, Error> {
    answer.unwrap_or(Err(Error::Ended(Ended::Closed)))
}
