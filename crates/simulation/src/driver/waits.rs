//! Calls that tell how far streams have come, and what went wrong.

use std::sync::Arc;

use spyre_flex::{Error, StreamFault};
use spyre_hal::{BlockKind, ControlBlock, StreamPoint};

use super::{Checked, Driver, broken, unexpected};
use crate::log::Step;
use crate::oracle::{Block, Effect, State};
use crate::violation::Promise;

/// Result of a call about one block; `None` if the runtime no longer knows it.
type Answer = Option<Result<bool, Arc<StreamFault>>>;

/// Returns the answer of a call about one block.
fn answer(what: &str, result: Result<bool, Error>) -> Checked<Answer> {
    match result {
        Err(Error::Forgotten { .. }) => Ok(None),
        other => reported(what, other).map(Some),
    }
}

/// Returns the value of a call, or the fault that it reports. Any other error is unexpected.
fn reported<T>(what: &str, result: Result<T, Error>) -> Checked<Result<T, Arc<StreamFault>>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(Error::Stream(fault)) => Ok(Err(fault)),
        Err(error) => unexpected(what, &error),
    }
}

impl Driver {
    pub(super) fn synchronize(&mut self) -> Checked {
        let at = self.stream_at();
        let stream = self.streams[at].index();
        self.log(Step::Call("synchronize", stream.0.into()));
        let result = reported("synchronize", self.streams[at].synchronize())?;
        let state = &mut *self.world.state();
        state.oracle.check_all_ended(stream)?;
        let expected = state.oracle.tell(stream);
        state.report.reported += u64::from(expected.is_some());
        state.oracle.check_reported(expected, result.err().as_deref())
    }

    pub(super) fn query(&mut self) -> Checked {
        let at = self.stream_at();
        let stream = self.streams[at].index();
        self.log(Step::Call("query", stream.0.into()));
        self.make_certain(stream);
        let expected = {
            let mut state = self.world.state();
            let is_open = state.oracle.lane(stream).open_for_certain().is_some();
            is_open.then(|| state.oracle.tell(stream)).flatten()
        };
        let result = reported("query", self.streams[at].query())?;
        let state = &mut *self.world.state();
        state.report.reported += u64::from(expected.is_some());
        match result {
            Err(fault) => state.oracle.check_reported(expected, Some(&fault)),
            Ok(true) => {
                state.oracle.check_reported(expected, None)?;
                state.oracle.check_all_ended(stream)
            }
            Ok(false) => {
                state.oracle.check_reported(expected, None)?;
                let is_quiet = state.pending.is_empty();
                let reserved = state.oracle.lane(stream).reserved;
                check_not_ended(state, StreamPoint { stream, sequence: reserved }, is_quiet)
            }
        }
    }

    pub(super) fn record(&mut self) -> Checked {
        let at = self.stream_at();
        let which = self.random.index(self.events.len());
        let recorded = std::mem::take(&mut self.events[which]);
        let point = match self.last_for(at).filter(|_| !recorded.is_timed) {
            Some(last) => {
                let given = self.streams[at].record(&recorded.event);
                match given {
                    Ok(given) if given == last => Some(last),
                    Ok(_) => return broken(Promise::InOrder, "an event has the wrong place"),
                    Err(error) => return unexpected("record an event", &error),
                }
            }
            None => {
                let last = self.world.state().oracle.lane(self.streams[at].index()).reserved;
                let model = Block::new(BlockKind::RecordEvent, None, Effect::None);
                let point =
                    self.queue(at, &[model], |stream| stream.record(&recorded.event).map(Some))?;
                if recorded.is_timed && point.is_some_and(|point| point.sequence == last) {
                    return broken(Promise::InOrder, "a timed event has no block of its own");
                }
                point
            }
        };
        let times = point.map(|p| self.world.state().oracle.lane(p.stream).doomed_times);
        self.events[which] = recorded;
        if let (Some(point), Some(times)) = (point, times) {
            self.events[which].point = Some((point, times));
        }
        Ok(())
    }

    /// The block that an event without a time is reached with: the last one of a stream that never
    /// failed.
    fn last_for(&self, at: usize) -> Option<StreamPoint> {
        let stream = self.streams[at].index();
        self.make_certain(stream);
        let mut state = self.world.state();
        let lane = state.oracle.lane(stream);
        let is_good = lane.reserved > 0 && lane.doomed_times == 0;
        is_good.then_some(StreamPoint { stream, sequence: lane.reserved })
    }

    pub(super) fn wait_for_event(&mut self) -> Checked {
        let at = self.stream_at();
        let which = self.random.index(self.events.len());
        let Some((point, times)) = self.events[which].point else {
            return match self.streams[at].wait(&self.events[which].event) {
                Ok(()) => Ok(()),
                Err(error) => unexpected("wait for an event that was not recorded", &error),
            };
        };
        if !self.world.state().oracle.is_remembered(point, times) {
            return self.record();
        }
        let model = Block::new(BlockKind::WaitEvent, None, Effect::WaitFor(point));
        // As a block: `FlexStream::wait` queues nothing if the event was reached.
        self.queue(at, &[model], |stream| {
            stream.submit([ControlBlock::WaitEvent(point)]).map(Some)
        })?;
        Ok(())
    }

    pub(super) fn query_event(&mut self) -> Checked {
        let which = self.random.index(self.events.len());
        self.log(Step::Call("query an event", which as u64));
        let result = answer("query an event", self.events[which].event.query())?;
        self.check_query(self.events[which].point, &result)
    }

    pub(super) fn synchronize_event(&mut self) -> Checked {
        let which = self.random.index(self.events.len());
        self.log(Step::Call("synchronize an event", which as u64));
        let result =
            answer("synchronize an event", self.events[which].event.synchronize().map(|()| true))?;
        self.check_query(self.events[which].point, &result)
    }

    pub(super) fn query_ticket(&mut self) -> Checked {
        let which = self.random.index(self.tickets.len());
        let Some((ticket, times)) = self.tickets.get(which).cloned() else { return Ok(()) };
        self.log(Step::Call("query a ticket", which as u64));
        let result = answer("query a ticket", ticket.query())?;
        self.check_query(Some((ticket.point(), times)), &result)
    }

    pub(super) fn wait_for_ticket(&mut self) -> Checked {
        let which = self.random.index(self.tickets.len());
        let Some((ticket, times)) = self.tickets.get(which).cloned() else { return Ok(()) };
        self.log(Step::Call("wait for a ticket", which as u64));
        let result = answer("wait for a ticket", ticket.wait().map(|()| true))?;
        self.check_query(Some((ticket.point(), times)), &result)
    }

    pub(super) fn synchronize_all(&mut self) -> Checked {
        self.synchronize_all_once().map(drop)
    }

    /// Returns true if a fault was reported.
    pub(super) fn synchronize_all_once(&mut self) -> Checked<bool> {
        self.log(Step::Call("synchronize all", 0));
        let result = reported("synchronize all", self.context.synchronize())?;
        let state = &mut *self.world.state();
        let lanes: Vec<_> = state.oracle.lanes().collect();
        for &lane in &lanes {
            state.oracle.check_all_ended(lane)?;
        }
        // The first that it finds; what the other streams have to tell, they still do.
        let expected = lanes.into_iter().find_map(|lane| state.oracle.tell(lane));
        state.report.reported += u64::from(expected.is_some());
        let reported = result.err();
        state.oracle.check_reported(expected, reported.as_deref())?;
        Ok(reported.is_some())
    }

    /// Compares what was said about one block.
    fn check_query(&self, point: Option<(StreamPoint, u64)>, answer: &Answer) -> Checked {
        let Some((point, times)) = point else {
            return match answer {
                Some(Ok(true)) => Ok(()),
                _ => broken(Promise::RightFault, "an event that was not recorded is not reached"),
            };
        };
        // To tell a fault ends it; but only one that the scheduler knows of.
        self.make_certain(point.stream);
        let state = &mut *self.world.state();
        if *answer == Some(Ok(false)) {
            let is_quiet = state.pending.is_empty();
            return check_not_ended(state, point, is_quiet);
        }
        state.oracle.check_ended(point)?;
        let is_remembered = state.oracle.is_remembered(point, times);
        let expected = state.oracle.outcome(point).map(State::cause);
        match (expected, answer) {
            (Some(expected), Some(result)) if is_remembered => {
                state.report.reported += u64::from(expected.is_some());
                state
                    .oracle
                    .check_reported(expected, result.as_ref().err().map(|fault| &**fault))?;
            }
            (Some(Some(_)), Some(Ok(_))) => {
                let message = format!("{point:?} has failed, and is said to have ended well");
                return broken(Promise::RightFault, message);
            }
            (_, None) if is_remembered => {
                return broken(Promise::RightFault, format!("{point:?} is forgotten too early"));
            }
            _ => {}
        }
        if matches!(answer, Some(Err(_))) {
            state.oracle.note_reported(point);
        }
        Ok(())
    }
}

/// Checks a block that is said not to have ended. With nothing under way on the card, all blocks
/// that can end have ended.
fn check_not_ended(world: &mut crate::world::State, point: StreamPoint, is_quiet: bool) -> Checked {
    let lane = world.oracle.lane(point.stream);
    let front = lane.front;
    let pinned = lane.pinned;
    if pinned >= point.sequence || (is_quiet && front >= point.sequence) {
        let outcome = world.oracle.outcome(point).map(State::is_ended);
        let message = format!("{point:?} has ended ({outcome:?}), and is said not to have");
        return broken(Promise::NoneLost, message);
    }
    Ok(())
}
