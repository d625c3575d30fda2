//! Calls that are not over. Their parts are carried out by several threads.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::Mutex;

use super::group_state::Done;
use crate::{CallOutcome, Error};

/// Calls that are not over, by their number.
#[derive(Default)]
pub(super) struct RunningCalls {
    calls: Mutex<HashMap<u64, RunningCall>>,
}

/// Call of which so many parts are not over.
struct RunningCall {
    parts: usize,
    result: Result<CallOutcome, Error>,
    done: Done,
}

/// Call that is over, for its callback.
pub(super) struct EndedCall {
    done: Done,
    result: Result<CallOutcome, Error>,
}

impl RunningCalls {
    /// Adds a call; one without parts has its turn as its only part.
    pub(super) fn add(&self, id: u64, parts: usize, done: Done) {
        let result = Ok(CallOutcome::default());
        self.calls.lock().insert(id, RunningCall { parts: parts.max(1), result, done });
    }

    /// Notes how a part of a call ended, with the rank that it received from. Returns the call if all parts are over.
    pub(super) fn finish(&self, id: u64, part: Result<Option<usize>, Error>) -> Option<EndedCall> {
        let mut calls = self.calls.lock();
        let call = calls.get_mut(&id)?;
        call.parts -= 1;
        match part {
            Ok(Some(source)) => {
                if let Ok(outcome) = &mut call.result {
                    outcome.source_rank = Some(source);
                }
            }
            Ok(None) => {}
            Err(error) => call.result = Err(error),
        }
        if call.parts > 0 {
            return None;
        }
        let RunningCall { result, done, .. } = calls.remove(&id)?;
        Some(EndedCall { done, result })
    }
}

impl EndedCall {
    /// Calls back; a panic there is the callback's own matter.
    pub(super) fn report(self) {
        let Self { done, result } = self;
        let _ = catch_unwind(AssertUnwindSafe(|| done(result)));
    }
}
