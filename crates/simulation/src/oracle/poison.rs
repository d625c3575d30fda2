//! Poisoned allocations: those that must be refused to readers, as far as that is certain.

use spyre_flex::StreamFault;
use spyre_hal::StreamIndex;

use super::lane::Lane;
use super::{Allocation, Block, CauseId, Checked, Effect, Oracle, Span, broken};
use crate::violation::Promise;

/// Poison of an allocation, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Poison {
    /// The last write of every stream.
    writes: Vec<Write>,
    /// The causes of writes that were cancelled and reported, since all of it was written.
    causes: Vec<CauseId>,
}

#[derive(Clone, Copy, Debug)]
struct Write {
    stream: StreamIndex,
    sequence: u64,
    /// All was written by another stream, or may have been, before this one was known to have ended:
    /// which of the two came last is for the runtime to say.
    is_raced: bool,
}

impl Poison {
    fn is_unsure(&self) -> bool {
        self.writes.iter().any(|write| write.is_raced)
    }
}

/// A stream at the moment at which a submission is checked and takes its places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    front: u64,
    /// It is failing, and the scheduler knows it.
    is_failing: bool,
    /// It is failing, and the scheduler may not know it yet.
    is_unsure: bool,
}

impl Oracle {
    /// All streams as they are.
    pub(super) fn before(&self) -> Vec<Before> {
        let before = |lane: &Lane| Before {
            front: lane.front,
            is_failing: lane.open_for_certain().is_some(),
            is_unsure: lane.is_open_uncertain(),
        };
        self.lanes.iter().map(before).collect()
    }

    /// Reports a stream's open failure, and poisons what it kept from being written.
    pub(crate) fn tell(&mut self, stream: StreamIndex) -> Option<CauseId> {
        let reported = self.lane(stream).tell();
        self.poison_by(stream);
        reported
    }

    /// Lets a stream go on, and poisons what its failure kept from being written.
    pub(crate) fn clear(&mut self, stream: StreamIndex) {
        self.lane(stream).clear();
        self.poison_by(stream);
    }

    fn poison_by(&mut self, stream: StreamIndex) {
        if self.lane(stream).open().is_some() {
            return;
        }
        let lane = &self.lanes[usize::from(stream.0)];
        for allocation in self.allocations.iter_mut() {
            let poison = &mut allocation.poison;
            let last = poison.writes.iter().find(|write| write.stream == stream);
            let cause = last.and_then(|write| lane.failure_of(write.sequence));
            poison.causes.extend(cause.filter(|cause| !poison.causes.contains(cause)));
        }
    }

    /// Notes what a block that was accepted will write.
    pub(super) fn note_write(
        &mut self,
        (stream, sequence): (StreamIndex, u64),
        effect: Effect,
        before: &[Before],
    ) {
        let Some(to) = effect.target() else { return };
        let Before { is_failing, is_unsure, .. } = before[usize::from(stream.0)];
        let allocation = self.allocations.get_mut(to.allocation);
        let is_whole = is_whole(to, allocation);
        let poison = &mut allocation.poison;
        let own = poison.writes.iter().position(|write| write.stream == stream);
        let own = own.map(|at| poison.writes.swap_remove(at));
        let mut is_raced = own.is_some_and(|own| own.is_raced);
        if is_whole && !is_failing {
            poison.causes.clear();
            poison.writes.retain_mut(|other| {
                let lane = before[usize::from(other.stream.0)];
                other.is_raced = lane.front < other.sequence || lane.is_unsure;
                other.is_raced
            });
            is_raced = is_unsure;
        }
        poison.writes.push(Write { stream, sequence, is_raced });
    }

    /// A submission was taken: it reads nothing of which it was reported that it is poisoned.
    pub(crate) fn check_sound(&mut self, stream: StreamIndex, models: &[Block]) -> Checked {
        if self.lane(stream).open().is_some() {
            return Ok(()); // it will be cancelled
        }
        for (nth, id) in reads(models) {
            let allocation = self.allocations.get(id);
            let is_healed = |to: Span| to.allocation == id && is_whole(to, allocation);
            if models[..nth].iter().filter_map(|model| model.effect.target()).any(is_healed) {
                continue;
            }
            if !allocation.poison.causes.is_empty() && !allocation.poison.is_unsure() {
                let message = format!("{:?} is poisoned, and was read", allocation.place);
                return broken(Promise::NoSilentResult, message);
            }
        }
        Ok(())
    }

    /// A submission was refused: it reads what was to be written by a block that was cancelled.
    pub(crate) fn check_poisoned(
        &mut self,
        stream: StreamIndex,
        models: &[Block],
        reported: &StreamFault,
    ) -> Checked {
        let submitting = self.submitting.as_ref();
        if submitting.is_some_and(|s| s.before[usize::from(stream.0)].is_failing) {
            return broken(Promise::RightRefusal, "a failing stream refused what is poisoned");
        }
        let is_reported = |cause: CauseId| self.causes[cause].is(reported);
        let is_right = reads(models).any(|(_, id)| {
            let poison = &self.allocations.get(id).poison;
            let lane = |stream: StreamIndex| &self.lanes[usize::from(stream.0)];
            let failure = |write: &Write| lane(write.stream).failure_of(write.sequence);
            let unreported = poison.writes.iter().filter_map(failure);
            let is_known = || poison.is_unsure() && (0..self.causes.len()).any(is_reported);
            poison.causes.iter().copied().chain(unreported).any(is_reported) || is_known()
        });
        if is_right {
            return Ok(());
        }
        broken(Promise::RightRefusal, format!("sound memory was refused for {reported}"))
    }
}

/// Returns true if bytes of an allocation are all that was asked for.
fn is_whole(span: Span, allocation: &Allocation) -> bool {
    span.offset == 0 && span.bytes as u64 >= allocation.requested
}

/// The allocations that blocks read, each with the place of its block.
fn reads(models: &[Block]) -> impl Iterator<Item = (usize, usize)> + '_ {
    let read = |(nth, model): (usize, &Block)| Some((nth, model.allocations()[0]?));
    models.iter().enumerate().filter_map(read)
}
