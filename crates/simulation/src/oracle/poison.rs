//! Which allocations must be refused to readers, as far as that is certain.

use spyre_flex::StreamFault;
use spyre_hal::StreamIndex;

use super::{Block, CauseId, Checked, Effect, Oracle, broken};
use crate::violation::Promise;

/// What is known of an allocation's poison.
#[derive(Clone, Debug, Default)]
pub(crate) struct Poison {
    /// The last write of every stream, since all of it was written.
    writes: Vec<(StreamIndex, u64)>,
    /// The causes of writes that were cancelled and reported.
    causes: Vec<CauseId>,
    /// Whether it was written by a stream of which it is not certain that it had failed.
    is_unsure: bool,
}

impl Oracle {
    /// Reports a stream's open failure, and poisons what it kept from being written.
    pub(crate) fn tell(&mut self, stream: StreamIndex) -> Option<CauseId> {
        let told = self.lane(stream).tell();
        self.poison_by(stream);
        told
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
            let last = poison.writes.iter().find(|(writer, _)| *writer == stream);
            let cause = last.and_then(|&(_, sequence)| lane.doom_of(sequence));
            poison.causes.extend(cause.filter(|cause| !poison.causes.contains(cause)));
        }
    }

    /// Notes what blocks that were accepted will write.
    pub(super) fn note_writes(&mut self, stream: StreamIndex, sequence: u64, effect: Effect) {
        let (Effect::Write { to, .. } | Effect::Fill { to, .. } | Effect::Copy { to, .. }) = effect
        else {
            return;
        };
        let is_failing = self.lane(stream).open_for_certain().is_some();
        let is_unsure = self.lane(stream).is_open_uncertain();
        let allocation = self.allocations.get_mut(to.allocation);
        let is_whole = to.offset == 0 && to.bytes as u64 >= allocation.requested;
        let poison = &mut allocation.poison;
        if is_whole && !is_failing {
            *poison = Poison { is_unsure: is_unsure || poison.is_unsure, ..Poison::default() };
        }
        match poison.writes.iter_mut().find(|(writer, _)| *writer == stream) {
            Some((_, last)) => *last = sequence,
            None => poison.writes.push((stream, sequence)),
        }
    }

    /// A submission was taken: it reads nothing of which it was reported that it is poisoned.
    pub(crate) fn check_sound(&mut self, stream: StreamIndex, models: &[Block]) -> Checked {
        if self.lane(stream).open().is_some() {
            return Ok(()); // it will be cancelled
        }
        for id in reads(models) {
            let allocation = self.allocations.get(id);
            if !allocation.poison.causes.is_empty() && !allocation.poison.is_unsure {
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
        told: &StreamFault,
    ) -> Checked {
        if self.lane(stream).open_for_certain().is_some() {
            return broken(Promise::RightRefusal, "a failing stream refused what is poisoned");
        }
        let reads: Vec<usize> = reads(models).collect();
        for id in reads {
            let poison = self.allocations.get(id).poison.clone();
            let lanes = &self.lanes;
            let unreported = poison
                .writes
                .iter()
                .filter_map(|&(writer, sequence)| lanes[usize::from(writer.0)].doom_of(sequence));
            let mut causes = poison.causes.iter().copied().chain(unreported);
            if poison.is_unsure || causes.any(|cause| self.causes[cause].is(told)) {
                return Ok(());
            }
        }
        broken(Promise::RightRefusal, format!("sound memory was refused for {told}"))
    }
}

fn reads(models: &[Block]) -> impl Iterator<Item = usize> + '_ {
    models.iter().filter_map(|model| model.allocations()[0])
}
