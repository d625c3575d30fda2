//! Work outside the card, as threads see it: begun, reported and cancelled with no lock held.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use spyre_hal::{Cancel, Completion, Outcome, StreamIndex, StreamPoint};

use super::drive::wake;
use super::{Drive, Scheduler};
use crate::core::DueExternal;
use crate::stream::card_wait::CardWait;
use crate::stream::table::Lane;
use crate::sync::Ordering;

/// Call by which a thread that waits for work outside the card carries it on.
#[derive(Clone)]
pub(super) struct Help(Arc<dyn Fn() + Send + Sync>);

impl fmt::Debug for Help {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Help")
    }
}

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

    /// Notes how threads that wait for work outside the card can carry it on.
    pub(crate) fn add_help(
        &self,
        lane: &Lane,
        point: StreamPoint,
        help: Arc<dyn Fn() + Send + Sync>,
    ) {
        self.helps.lock().push((point, Help(help)));
        // It may have ended before that: then its end does not take the note back.
        if lane.is_done(point.sequence) {
            self.remove_help(point);
        }
    }

    fn remove_help(&self, point: StreamPoint) {
        self.helps.lock().retain(|(helped, _)| *helped != point);
    }

    /// Has this thread carry on the work outside the card that a stream waits for, if that work can be helped.
    #[cold]
    pub(super) fn help_external(&self, stream: StreamIndex) {
        let awaited = self.core.lock().awaited_external(stream);
        let Some(point) = awaited else { return };
        let helps = self.helps.lock();
        let help = helps.iter().find(|(helped, _)| *helped == point).map(|(_, help)| help.clone());
        drop(helps);
        if let Some(help) = help {
            (help.0)();
        }
    }

    fn finish_external(&self, point: StreamPoint, outcome: Outcome) {
        if !self.process.is_current() {
            return;
        }
        let mut core = self.core.lock();
        core.finish_external(point, outcome);
        let wakes = core.take_wakes();
        // A worker that finds nothing would be woken for no reason, at each end.
        let is_idle = self.drive == Drive::Workers && !core.has_ready();
        drop(core);
        self.remove_help(point);
        wake(wakes);
        if !is_idle || self.is_closing.load(Ordering::SeqCst) {
            self.go_on();
        }
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
