//! Ends blocks that do not end by themselves.

use std::sync::{Arc, Weak};
use std::time::Duration;

use spyre_hal::EngineIndex;

use super::Scheduler;
use super::drive::wake;
use crate::core::Overdue;

impl Scheduler {
    /// Looks for blocks that have run too long: each is aborted, and if that does not help, the
    /// device is given up. Returns how many it found. A thread calls this if a limit is set.
    pub fn look_for_hung_blocks(&self) -> usize {
        let Some(limit) = self.settings.watchdog_nanoseconds else { return 0 };
        if !self.process.is_current() {
            return 0;
        }
        let mut core = self.core.lock();
        let overdue = core.overdue(limit);
        let wakes = core.take_wakes();
        drop(core);
        wake(wakes);
        for late in &overdue {
            match *late {
                Overdue::Abort(engine) => self.abort(engine),
                Overdue::Lost(_) => {
                    self.go_on();
                    self.end_lingering();
                }
            }
        }
        overdue.len()
    }

    /// Aborts an engine's block, unless it has ended since it was found: to end another engine's
    /// may have carried out any number of blocks. If it ends just now, the device has no block of
    /// that token.
    fn abort(&self, engine: EngineIndex) {
        let token = self.core.lock().to_be_aborted(engine);
        if let Some(token) = token {
            self.hardware.abort(engine, token);
        }
    }

    pub(super) fn start_watchdog(self: &Arc<Self>) {
        let Some(limit) = self.settings.watchdog_nanoseconds else { return };
        let period = Duration::from_nanos(limit / 4).max(Duration::from_millis(1));
        let scheduler = Arc::downgrade(self);
        self.env.spawn("spyre watchdog".to_owned(), Box::new(move || watch(&scheduler, period)));
    }
}

fn watch(scheduler: &Weak<Scheduler>, period: Duration) {
    loop {
        std::thread::park_timeout(period);
        let Some(scheduler) = scheduler.upgrade() else { return };
        if scheduler.is_at_its_end() {
            return;
        }
        scheduler.look_for_hung_blocks();
    }
}
