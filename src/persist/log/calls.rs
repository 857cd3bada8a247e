//! Calls to others, all of which are made although one of them panics.
//!
//! **Invariant**: a panic of one callee reaches the caller after everybody was told.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// See the file.
#[derive(Default)]
pub(crate) struct Calls {
    panicked: Option<Box<dyn Any + Send>>,
}

impl Calls {
    /// Makes a call.
    pub(crate) fn make(&mut self, call: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
            self.panicked.get_or_insert(panic);
        }
    }

    /// Goes on with the first panic, if there was one.
    pub(crate) fn finish(self) {
        if let Some(panic) = self.panicked {
            resume_unwind(panic);
        }
    }
}
