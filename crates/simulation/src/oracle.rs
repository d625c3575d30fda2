//! Expected behaviour of the runtime: a plain sequential model of streams, memory and faults.

mod allocation;
mod allocations;
mod block;
mod cause;
mod lane;
mod poison;
mod records;
mod window;

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use spyre_flex::StreamFault;
use spyre_hal::{BlockKind, Outcome, Severity, StreamIndex, StreamPoint};

use crate::log::Fingerprint;
use crate::violation::{Promise, Violation};
pub(crate) use allocation::{Allocation, RegionAddress};
use allocations::Allocations;
pub(crate) use block::{Block, Effect, Span, State, payload};
pub(crate) use cause::{Cause, CauseId, GIVEN_UP};
use lane::Lane;
use poison::Before;

/// Failures that a stream is certain to remember, for tickets that are asked late.
const REMEMBERED_FAILURES: u64 = 200;

/// The model. It is given the calls of the runtime and what the card saw, and objects.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    lanes: Vec<Lane>,
    pub(crate) allocations: Allocations,
    /// Blocks that the card may be given, by what it recognises them by.
    identities: HashMap<u64, (StreamIndex, u32), BuildHasherDefault<Fingerprint>>,
    causes: Vec<Cause>,
    lost: Option<CauseId>,
    submitting: Option<Submission>,
}

/// Blocks that are being queued.
#[derive(Debug)]
struct Submission {
    stream: StreamIndex,
    blocks: u64,
    before: Vec<Before>,
}

type Checked<T = ()> = Result<T, Violation>;

fn broken<T>(promise: Promise, message: impl Into<String>) -> Checked<T> {
    Err(Violation::new(promise, message))
}

impl Oracle {
    pub(crate) fn lane(&mut self, stream: StreamIndex) -> &mut Lane {
        let at = usize::from(stream.0);
        if self.lanes.len() <= at {
            self.lanes.resize_with(at + 1, Lane::default);
            // A stream that is made while the device is lost is as lost.
            if let Some(lost) = self.lost {
                let cause = self.causes[lost].clone();
                self.lanes[at].fail(&cause, 1, false);
            }
        }
        &mut self.lanes[at]
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// The cause that everything is refused with.
    pub(crate) fn lost(&self) -> Option<CauseId> {
        self.lost
    }

    /// Front of every stream: the last of its blocks that has ended.
    pub(crate) fn fronts(&self) -> Vec<u64> {
        self.lanes.iter().map(|lane| lane.front).collect()
    }

    /// A stream was opened, where nothing is under way. Whatever went wrong there before is not
    /// its fault.
    pub(crate) fn open(&mut self, stream: StreamIndex) -> Checked {
        self.check_all_ended(stream)?;
        self.close(stream);
        Ok(())
    }

    /// A stream was dropped, and with it a fault that no caller asked about.
    pub(crate) fn close(&mut self, stream: StreamIndex) {
        if !self.is_lost() {
            self.clear(stream);
        }
    }

    /// Blocks that are about to be submitted. `None` if the card could not tell one of them from
    /// another stream's.
    pub(crate) fn announce(&mut self, stream: StreamIndex, blocks: &[Block]) -> Option<u64> {
        let is_taken = |block: &Block| {
            let known = block.identity.and_then(|identity| self.identities.get(&identity));
            known.is_some_and(|(owner, _)| *owner != stream)
        };
        if blocks.iter().any(is_taken) {
            return None;
        }
        for block in blocks {
            if let Some(identity) = block.identity {
                self.identities.entry(identity).or_insert((stream, 0)).1 += 1;
            }
            self.lane(stream).push(block.clone());
        }
        let reserved = self.lane(stream).reserved;
        let blocks = blocks.len() as u64;
        let before = self.before();
        self.submitting = Some(Submission { stream, blocks, before });
        Some(reserved)
    }

    /// The submission was accepted.
    pub(crate) fn accept(&mut self, stream: StreamIndex) -> Checked {
        let Some(Submission { blocks, before, .. }) = self.submitting.take() else { return Ok(()) };
        let last = self.lane(stream).reserved;
        for sequence in last + 1 - blocks..=last {
            let Some(block) = self.lane(stream).get(sequence) else { continue };
            let allocations = block.allocations();
            let effect = block.effect;
            self.note_write((stream, sequence), effect, &before);
            for allocation in allocations.into_iter().flatten() {
                self.allocations.get_mut(allocation).note_use(stream, sequence);
            }
        }
        self.settle(stream)
    }

    /// The submission was refused: nothing may be left of it.
    pub(crate) fn retract(&mut self, stream: StreamIndex) -> Checked {
        let Some(Submission { blocks, .. }) = self.submitting.take() else { return Ok(()) };
        for _ in 0..blocks {
            let block = self.lane(stream).pop();
            let Some(block) = block else { continue };
            if block.state != State::Queued {
                return broken(Promise::RightRefusal, "a block ran though it was refused");
            }
            self.forget(block.identity);
        }
        Ok(())
    }

    /// Blocks that are being submitted do not count as queued while their caller waits for room.
    pub(crate) fn set_waiting_for_room(&mut self, is_waiting: bool) {
        let before = self.before();
        let Some(submission) = &mut self.submitting else { return };
        submission.before = before;
        let stream = submission.stream;
        let blocks = submission.blocks;
        let lane = self.lane(stream);
        if is_waiting {
            lane.reserved -= blocks;
        } else {
            lane.reserved += blocks;
        }
    }

    /// The card was given a block.
    pub(crate) fn start(&mut self, identity: u64) -> Checked<StreamPoint> {
        let Some(&(stream, _)) = self.identities.get(&identity) else {
            return broken(Promise::NoneDoubled, "a block was started that is not queued");
        };
        self.settle(stream)?;
        let lane = self.lane(stream);
        let sequence = lane.front + 1;
        let point = StreamPoint { stream, sequence };
        match lane.get(sequence) {
            Some(block) if block.identity == Some(identity) && block.state == State::Queued => {}
            other => {
                let message = format!("{point:?}: another block was started than {other:?}");
                return broken(Promise::InOrder, message);
            }
        }
        self.run(point)?;
        Ok(point)
    }

    /// A block that is next is started.
    pub(crate) fn run(&mut self, point: StreamPoint) -> Checked {
        self.settle(point.stream)?;
        let StreamPoint { stream, sequence } = point;
        let lane = self.lane(stream);
        let front = lane.front;
        match lane.get_mut(sequence) {
            Some(block) if front + 1 == sequence && block.state == State::Queued => {
                block.state = State::Running;
            }
            _ => return broken(Promise::InOrder, format!("{point:?} runs behind {front}")),
        }
        lane.pinned = lane.pinned.max(sequence - 1);
        self.check_ownership(point)
    }

    /// The block at a point has ended; what it wrote, if anything, is known.
    pub(crate) fn end(&mut self, point: StreamPoint, outcome: &Outcome) -> Checked {
        let StreamPoint { stream, sequence } = point;
        let Some(block) = self.lane(stream).get_mut(sequence) else {
            return broken(Promise::NoneDoubled, format!("{point:?} is unknown"));
        };
        if block.state != State::Running {
            return broken(Promise::NoneDoubled, format!("{point:?} ended as {:?}", block.state));
        }
        let kind = block.kind;
        let label = block.label;
        let identity = block.identity.take();
        block.state = State::Done;
        self.forget(identity);
        if let Err(fault) = outcome {
            let own = Cause { id: 0, point, kind, label, fault: fault.clone() };
            // If the device was lost before, the first cause is reported.
            let known = self.lost.filter(|_| fault.severity() == Severity::Lost);
            let cause = known.unwrap_or_else(|| self.add_cause(own));
            self.fail(point, cause);
        }
        let lane = self.lane(stream);
        lane.front = sequence;
        lane.pinned = lane.pinned.max(sequence);
        self.settle_all()
    }

    /// The device is lost: what was not taken in hand is cancelled. The flight recorder has just
    /// been compared.
    pub(crate) fn lose(&mut self, cause: CauseId) {
        let cause = *self.lost.get_or_insert(cause);
        let cause = self.causes[cause].clone();
        for lane in &mut self.lanes {
            lane.unpresume();
            let from = lane.taken() + 1;
            lane.fail(&cause, from, false);
        }
    }

    /// The device is about to be reset.
    pub(crate) fn lose_by_reset(&mut self) -> Checked {
        let cause = self.add_cause(Cause::reset());
        self.lose(cause);
        self.settle_all()
    }

    /// The device was reset: everything has ended, and all memory is gone.
    pub(crate) fn revive(&mut self) -> Checked {
        self.settle_all()?;
        self.lost = None;
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            if lane.front != lane.reserved {
                let front = lane.front;
                let reserved = lane.reserved;
                let message = format!("stream {at} is at {front} of {reserved} after a reset");
                return broken(Promise::NoneLost, message);
            }
            lane.pinned = lane.front;
            lane.clear();
        }
        self.allocations.clear();
        Ok(())
    }

    /// The cause that new blocks of a stream are refused with.
    pub(crate) fn refusal(&mut self, stream: StreamIndex) -> Option<CauseId> {
        let lost = self.lost;
        let open = self.lane(stream).open_for_certain();
        open.filter(|doom| doom.severity > Severity::Data).map(|doom| lost.unwrap_or(doom.cause))
    }

    /// State of a block; `None` if it is too long ago to know.
    pub(crate) fn outcome(&mut self, point: StreamPoint) -> Option<State> {
        self.lane(point.stream).get(point.sequence).map(|block| block.state)
    }

    /// Returns true if a stream is certain to remember how a block ended.
    pub(crate) fn is_remembered(&mut self, point: StreamPoint, doomed_times: u64) -> bool {
        let lane = self.lane(point.stream);
        lane.doomed_times < doomed_times + REMEMBERED_FAILURES && lane.get(point.sequence).is_some()
    }

    /// A call has reported how the block at a point ended.
    pub(crate) fn note_reported(&mut self, point: StreamPoint) {
        let cause = self.outcome(point).and_then(State::cause);
        let lane = self.lane(point.stream);
        if lane.open_for_certain().is_some_and(|doom| Some(doom.cause) == cause) {
            self.tell(point.stream);
        }
    }

    /// Everything of a stream has ended, says the runtime.
    pub(crate) fn check_all_ended(&mut self, stream: StreamIndex) -> Checked {
        let reserved = self.lane(stream).reserved;
        self.check_ended(StreamPoint { stream, sequence: reserved })
    }

    /// Everything up to a point has ended, says the runtime.
    pub(crate) fn check_ended(&mut self, point: StreamPoint) -> Checked {
        self.settle_all()?;
        let lane = self.lane(point.stream);
        if lane.front < point.sequence {
            let message = format!("{point:?} is said to have ended, and {} has", lane.front);
            return broken(Promise::InOrder, message);
        }
        lane.pinned = lane.pinned.max(point.sequence);
        Ok(())
    }

    pub(crate) fn check_reported(
        &self,
        expected: Option<CauseId>,
        reported: Option<&StreamFault>,
    ) -> Checked {
        match (expected, reported) {
            (None, None) => Ok(()),
            (Some(cause), Some(reported)) if self.causes[cause].is(reported) => Ok(()),
            (expected, reported) => {
                let expected = expected.map(|cause| &self.causes[cause]);
                broken(Promise::RightFault, format!("expected {expected:?}, not {reported:?}"))
            }
        }
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = StreamIndex> + use<> {
        (0..self.lanes.len() as u16).map(StreamIndex)
    }

    pub(crate) fn add_cause(&mut self, cause: Cause) -> CauseId {
        let id = self.causes.len();
        self.causes.push(Cause { id, ..cause });
        id
    }

    /// Ends what ends without anything to be seen, on every stream.
    pub(crate) fn settle_all(&mut self) -> Checked {
        while (0..self.lanes.len()).any(|at| self.settle_one(StreamIndex(at as u16))) {}
        Ok(())
    }

    /// Like [`settle_all`](Self::settle_all), on one stream and on those that wait for it.
    pub(crate) fn settle(&mut self, stream: StreamIndex) -> Checked {
        if self.settle_one(stream) { self.settle_all() } else { Ok(()) }
    }

    fn settle_one(&mut self, stream: StreamIndex) -> bool {
        let first = self.lane(stream).front;
        while self.lane(stream).front < self.lane(stream).reserved && self.settle_next(stream) {
            self.lane(stream).front += 1;
        }
        self.lane(stream).front > first
    }

    fn settle_next(&mut self, stream: StreamIndex) -> bool {
        let lane = self.lane(stream);
        let sequence = lane.front + 1;
        let doom = lane.doom_of(sequence);
        let Some(block) = lane.get_mut(sequence) else { return false };
        match (block.state, doom, block.effect) {
            (State::Running, ..) => return false,
            (state, ..) if state.is_ended() => return true,
            (_, Some(cause), _) => {
                block.state = State::Cancelled(cause);
                let identity = block.identity.take();
                self.forget(identity);
                return true;
            }
            (_, None, Effect::WaitFor(point)) => return self.settle_wait(stream, sequence, point),
            _ => {}
        }
        let is_record = block.kind == BlockKind::RecordEvent;
        if is_record {
            block.state = State::Done;
        }
        is_record
    }

    fn settle_wait(&mut self, stream: StreamIndex, sequence: u64, point: StreamPoint) -> bool {
        if self.lane(point.stream).front < point.sequence {
            return false;
        }
        let cause = self.outcome(point).and_then(State::cause);
        let state = cause.map_or(State::Done, State::Failed);
        if let Some(cause) = cause {
            let cause = self.causes[cause].clone();
            self.lane(stream).fail(&cause, sequence, true);
        }
        if let Some(block) = self.lane(stream).get_mut(sequence) {
            block.state = state;
        }
        true
    }

    fn fail(&mut self, point: StreamPoint, cause: CauseId) {
        let StreamPoint { stream, sequence } = point;
        if let Some(block) = self.lane(stream).get_mut(sequence) {
            block.state = State::Failed(cause);
        }
        let cause = self.causes[cause].clone();
        self.lane(stream).fail(&cause, sequence, false);
        if cause.fault.severity() == Severity::Lost {
            let lane = self.lane(stream);
            lane.front = lane.front.max(sequence);
            lane.pinned = lane.pinned.max(sequence);
            self.lose(cause.id);
        }
    }

    fn forget(&mut self, identity: Option<u64>) {
        let Some(identity) = identity else { return };
        if let Some((_, blocks)) = self.identities.get_mut(&identity) {
            *blocks -= 1;
            if *blocks == 0 {
                self.identities.remove(&identity);
            }
        }
    }

    /// Checks that no block of an older owner may still touch the memory of the block at a point.
    fn check_ownership(&mut self, point: StreamPoint) -> Checked {
        let Some(block) = self.lane(point.stream).get(point.sequence) else { return Ok(()) };
        let allocations = block.allocations();
        for id in allocations.into_iter().flatten() {
            let fronts = |stream: StreamIndex| self.lanes[usize::from(stream.0)].front;
            self.allocations.check_older_owners(id, fronts)?;
        }
        Ok(())
    }
}
