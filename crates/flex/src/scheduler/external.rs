//! Work outside the card, as threads see it: begun, reported and cancelled with no lock held.

use std::panic::{AssertUnwindSafe, catch_unwind};

use spyre_hal::{Cancel, Completion, Outcome, StreamPoint};

use super::Scheduler;
use super::drive::wake;
use crate::core::DueExternal;
use crate::stream::card_wait::CardWait;

impl Scheduler {
    /// Begins work whose turn has come. Work that panics instead has failed: its completion is dropped.
    #[cold]
    pub(super) fn begin_external(&self, due: Vec<DueExternal>) {
        for DueExternal { point, work } in due {
            let Some(scheduler) = self.me.upgrade() else { return };
            // What reports may outlive all other owners: the memory that it uses stays until then.
            let completion = Completion::new(move |outcome| {
                scheduler.finish_external(point, outcome);
            });
            drop(catch_unwind(AssertUnwindSafe(|| work.begin(completion))));
        }
    }

    /// Lets a stream of another card go on when a point is reached.
    pub(crate) fn wake_when_reached(&self, point: StreamPoint, card_wait: CardWait) {
        let reached = self.core.lock().add_card_wait(point, card_wait);
        if let Some(wake) = reached {
            wake.call();
        }
    }

    fn finish_external(&self, point: StreamPoint, outcome: Outcome) {
        if !self.process.is_current() {
            return;
        }
        let mut core = self.core.lock();
        core.finish_external(point, outcome);
        let wakes = core.take_wakes();
        drop(core);
        wake(wakes);
        self.go_on();
        self.end_lingering();
    }

    /// Asks all work outside the card to end early.
    pub(super) fn cancel_external(&self) -> Vec<StreamPoint> {
        let running = self.core.lock().external_cancels();
        let cancel = |(point, cancel): (StreamPoint, Cancel)| {
            cancel.call();
            point
        };
        running.into_iter().map(cancel).collect()
    }

    /// Asks all work outside the card to end early, and waits until it has: nothing of it touches the
    /// card's memory any more.
    pub(super) fn end_external(&self) {
        for point in self.cancel_external() {
            if let Ok(lane) = self.lane(point.stream) {
                self.wait_through(lane, point.sequence);
            }
        }
    }
}
