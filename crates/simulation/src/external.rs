//! Work outside the card, which ends in random order with everything else.

use spyre_hal::{Completion, Fault, StreamPoint};

use crate::fault_plan::is_due;
use crate::log::Step;
use crate::world::{World, name};

/// Longest time that work takes by itself, in nanoseconds.
const LONGEST: u64 = 10_000;

/// Work that is under way.
#[derive(Debug)]
pub(crate) struct External {
    point: StreamPoint,
    completion: Completion,
    /// Time when it ends.
    pub(crate) due: u64,
    is_cancelled: bool,
}

impl World {
    /// Work outside the card has its turn.
    pub(crate) fn begin_external(&self, point: StreamPoint, completion: Completion) {
        let mut state = self.state();
        let started = state.oracle.run(point);
        state.check(started);
        let due = self.now() + state.random.below(LONGEST);
        state.external.push(External { point, completion, due, is_cancelled: false });
    }

    /// Work outside the card is asked to end early.
    pub(crate) fn cancel_external(&self, point: StreamPoint) {
        let now = self.now();
        let mut state = self.state();
        let is_asked = |external: &&mut External| external.point == point;
        if let Some(external) = state.external.iter_mut().find(is_asked) {
            external.due = external.due.min(now);
            external.is_cancelled = true;
        }
    }

    /// Ends the work at a place among those under way, and reports it.
    pub(crate) fn end_external(&self, at: usize) {
        let mut state = self.state();
        let External { point, completion, is_cancelled, .. } = state.external.remove(at);
        // A failure ends all that is queued behind it: as often as callbacks, it would leave little to look at.
        let fails =
            is_due(self.settings.faults.callback, &mut state.random) && state.random.one_in(8);
        let result = match (is_cancelled, fails) {
            (true, _) => Err("cancelled".to_owned()),
            (false, true) => Err(format!("planned for block {}", point.sequence)),
            (false, false) => Ok(()),
        };
        let failed = |why: &String| Fault::ExternalWorkFailed { message: why.as_str().into() };
        let outcome = result.as_ref().map(|&()| ()).map_err(failed);
        state.report.faults += u64::from(outcome.is_err());
        state.log.add(self.now(), Step::Ended { engine: u16::MAX, point, outcome: name(&outcome) });
        let ended = state.oracle.end(point, &outcome);
        state.check(ended);
        drop(state);
        completion.complete(result);
    }
}
