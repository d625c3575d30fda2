use spyre_flex::{Error, Policy, Priority};

use super::{Checked, Driver, broken, unexpected};
use crate::log::Step;
use crate::violation::Promise;

impl Driver {
    pub(super) fn open_stream(&mut self) -> Checked {
        if self.streams.len() >= self.world.settings.streams {
            return self.query();
        }
        let priority = self.random.pick(&[Priority::Low, Priority::High]);
        match self.context.stream(priority) {
            Ok(stream) => {
                self.log(Step::Call("open a stream", stream.index().0.into()));
                self.world.state().oracle.open(stream.index())?;
                self.streams.push(stream);
                Ok(())
            }
            Err(error) => unexpected("a stream", &error),
        }
    }

    /// Drops a stream, busy or not: its work goes on. A fault that no caller asked about is dropped
    /// with it.
    pub(super) fn drop_stream(&mut self) -> Checked {
        let at = self.stream_at();
        let stream = self.streams.swap_remove(at);
        let index = stream.index();
        self.log(Step::Call("drop a stream", index.0.into()));
        self.make_certain(index);
        drop(stream);
        self.world.state().oracle.close(index);
        Ok(())
    }

    pub(super) fn reset_stream(&mut self) -> Checked {
        let at = self.stream_at();
        self.reset_stream_at(at)
    }

    pub(super) fn reset_stream_at(&mut self, at: usize) -> Checked {
        let index = self.streams[at].index();
        self.log(Step::Call("reset a stream", index.0.into()));
        self.make_certain(index);
        let expected = {
            let mut state = self.world.state();
            let cause = state.oracle.lost();
            if cause.is_none() {
                state.oracle.clear(index);
            }
            cause
        };
        let reported = match self.streams[at].reset() {
            Ok(()) => None,
            Err(Error::Stream(reported)) => Some(reported),
            Err(error) => return unexpected("reset a stream", &error),
        };
        self.world.state().oracle.check_reported(expected, reported.as_deref())
    }

    pub(super) fn reset_device(&mut self) -> Checked {
        self.log(Step::Call("reset the device", 0));
        self.world.compare();
        self.world.state().oracle.lose_by_reset()?;
        if let Err(error) = self.context.reset() {
            return unexpected("reset the device", &error);
        }
        self.world.compare();
        for id in std::mem::take(&mut self.live) {
            let handle = self.world.state().oracle.allocations.get(id).handle;
            self.remember_stale(handle);
            if self.context.allocator().check(handle, 0, 1).is_ok() {
                return broken(Promise::RightRefusal, "a handle outlived a reset");
            }
        }
        let mut state = self.world.state();
        state.report.resets += 1;
        state.oracle.revive()
    }

    pub(super) fn set_policy(&mut self) -> Checked {
        let policies = [Policy::RoundRobin, Policy::Priority, Policy::DrainOne];
        if self.random.one_in(2) {
            self.context.scheduler().set_policy(self.random.pick(&policies));
        } else {
            let is_tracing = self.random.one_in(2);
            self.context.scheduler().set_tracing(is_tracing);
        }
        Ok(())
    }

    /// The end of a run: what is queued ends, and what is allocated can be freed.
    pub(super) fn finish(&mut self) -> Checked {
        if self.world.state().oracle.is_lost() {
            self.reset_device()?;
        }
        self.tickets.clear();
        while let Some(id) = self.live.pop() {
            self.free_one(id)?;
        }
        if self.random.one_in(2) { self.finish_together() } else { self.leave() }
    }

    fn finish_together(&mut self) -> Checked {
        while self.synchronize_all_once()? {
            self.reset_device()?;
        }
        self.world.compare();
        self.context.allocator().empty_cache();
        self.check()
    }

    /// Drops streams while they are busy: no caller waits, and all blocks end none the less.
    fn leave(&mut self) -> Checked {
        while !self.streams.is_empty() {
            self.drop_stream()?;
        }
        self.events.clear();
        while self.world.step() {}
        self.world.compare();
        let mut state = self.world.state();
        let lanes: Vec<_> = state.oracle.lanes().collect();
        for lane in lanes {
            state.oracle.check_all_ended(lane)?;
        }
        drop(state);
        self.check()
    }
}
