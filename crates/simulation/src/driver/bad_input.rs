//! Calls that a caller gets wrong: the runtime refuses every one, and nothing is left of it.

use std::sync::Arc;

use spyre_flex::{Context, ControlBlockStream, Error, Event, FlexStream, Priority, StreamIndex};
use spyre_hal::{
    ControlBlock, CopyDevice, DeviceHandle, DeviceRange, HandleTag, HostBuffer, HostCallback,
    Label, Location, NullCard, Pattern, StreamPoint,
};

use super::{Checked, Driver, broken};
use crate::log::Step;
use crate::violation::Promise;

/// Another card, whose things are not ours.
pub(super) struct Foreign {
    context: Context,
    _stream: FlexStream,
    event: Event,
    handle: DeviceHandle,
}

impl Foreign {
    pub(super) fn new() -> Result<Self, Error> {
        let context = Context::open(Arc::new(NullCard::new()))?;
        let stream = context.stream(Priority::Low)?;
        let event = Event::new();
        stream.record(&event)?;
        let handle = stream.allocate(4096)?;
        Ok(Self { context, _stream: stream, event, handle })
    }
}

/// Things that can be wrong, in words.
const MISTAKES: [&str; 16] = [
    "a handle that was freed",
    "a handle that was made up",
    "a handle of another card",
    "past the end",
    "past all numbers",
    "zero bytes",
    "onto itself",
    "unequal lengths",
    "a source that is too small",
    "a foreign event",
    "a point in the future",
    "a stream that was never made",
    "no blocks, or too many",
    "a list that is not final",
    "a buffer that is lent",
    "freed twice",
];

impl Driver {
    pub(super) fn bad_input(&mut self) -> Checked {
        let at = self.stream_at();
        let which = self.random.index(MISTAKES.len());
        self.log(Step::Call(MISTAKES[which], at as u64));
        let handle = match self.live.first() {
            Some(&id) => self.world.state().oracle.allocations.get(id).handle,
            None => return self.allocate(),
        };
        match self.mistake(which, at, handle) {
            Some(Err(_)) => self.refused(MISTAKES[which]),
            Some(Ok(())) => broken(Promise::RightRefusal, format!("{} is let in", MISTAKES[which])),
            None => Ok(()),
        }
    }

    pub(super) fn refused(&self, _what: &'static str) -> Checked {
        self.world.state().report.refused += 1;
        Ok(())
    }

    /// Makes a mistake; `None` if there is no way to make it now.
    fn mistake(
        &mut self,
        which: usize,
        at: usize,
        handle: DeviceHandle,
    ) -> Option<Result<(), Error>> {
        let stream = &self.streams[at];
        let range = DeviceRange::start_of(handle, 16);
        let fill = |target| ControlBlock::Fill { pattern: Pattern::from(7), target };
        let copy = |source, target| {
            ControlBlock::CopyDevice(Box::new(CopyDevice { source, target, nest: None }))
        };
        let submit = |blocks: Vec<ControlBlock>| Some(stream.submit(blocks).map(drop));
        match which {
            0 => {
                let stale = self.stale.get(self.random.index(self.stale.len())).copied()?;
                // A good block before it must not be queued either.
                submit(vec![fill(range), fill(DeviceRange::start_of(stale, 16))])
            }
            1 => {
                let made_up = made_up(handle, self.random.number());
                submit(vec![fill(range), fill(DeviceRange::start_of(made_up, 16))])
            }
            2 => submit(vec![fill(DeviceRange::start_of(self.foreign.handle, 16))]),
            3 => submit(vec![fill(DeviceRange { offset: 1 << 30, ..range })]),
            4 => submit(vec![fill(DeviceRange { offset: u64::MAX, ..range })]),
            5 => submit(vec![fill(range), fill(DeviceRange { bytes: 0, ..range })]),
            6 => submit(vec![copy(range, DeviceRange { offset: 15, ..range })]),
            7 => submit(vec![copy(range, DeviceRange { offset: 32, bytes: 8, ..range })]),
            8 => Some(stream.copy_staged(&[1; 15], range).map(drop)),
            9 => Some(stream.record(&self.foreign.event).map(drop)),
            10 => {
                let index = stream.index();
                let sequence = self.world.state().oracle.lane(index).reserved + 1;
                let point = StreamPoint { stream: index, sequence };
                submit(vec![fill(range), ControlBlock::WaitEvent(point)])
            }
            11 => {
                let scheduler = self.context.scheduler();
                Some(scheduler.queue_operation(StreamIndex(4000), fill(range)).map(drop))
            }
            12 => {
                let too_many = self.world.settings.queue_bound + 1;
                let count = self.random.pick(&[0, too_many]);
                submit((0..count).map(|_| fill(range)).collect())
            }
            13 => Some(self.bad_composition(at, fill(range))),
            14 => {
                let buffer = HostBuffer::zeroed(16);
                let lent = buffer.lend_to_write();
                let result = stream.copy_to_device(&buffer, range).map(drop);
                drop(lent);
                Some(result)
            }
            _ => {
                let stale = self.stale.get(self.random.index(self.stale.len())).copied()?;
                Some(self.context.free(stale))
            }
        }
    }

    fn bad_composition(&mut self, at: usize, block: ControlBlock) -> Result<(), Error> {
        let mut blocks = ControlBlockStream::new();
        match self.random.below(4) {
            0 => blocks.finalize(),
            1 => blocks.replay(&self.streams[at]).map(drop),
            2 => blocks.append(ControlBlock::HostCallback(HostCallback::new(|| Ok(())))),
            _ => {
                blocks.append(block)?;
                blocks.finalize()?;
                let program = self.foreign.handle;
                blocks.append(ControlBlock::launch(program, Label::default()))
            }
        }
    }
}

/// A handle that differs in one thing from one that is good.
fn made_up(handle: DeviceHandle, number: u64) -> DeviceHandle {
    let HandleTag { epoch, generation, slot } = handle.tag();
    let other = (number >> 8) as u32 | 1;
    let tag = match number % 3 {
        0 => HandleTag { epoch, generation: generation ^ other, slot },
        1 => HandleTag { epoch: epoch ^ other as u16, generation, slot },
        _ => HandleTag { epoch, generation, slot: slot ^ other },
    };
    let is_other_place = number.is_multiple_of(5);
    match handle.location() {
        Location::Pf(mut place) if is_other_place => {
            place.physical_address ^= 128;
            DeviceHandle::pf(place, handle.tag())
        }
        Location::Vf(mut place) if is_other_place => {
            place.vf_offset ^= 128;
            DeviceHandle::vf(place, handle.tag())
        }
        Location::Pf(place) => DeviceHandle::pf(place, tag),
        Location::Vf(place) => DeviceHandle::vf(place, tag),
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // Its handle is given back, so that epochs of many runs do not add up.
        drop(self.context.free(self.handle));
    }
}
