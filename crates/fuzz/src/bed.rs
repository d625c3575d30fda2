//! A card with memory whose every byte is known.

use std::sync::Arc;

use spyre_card::SoftwareCard;
use spyre_flex::{Budget, Drive, FlexStream, MemoryAccess, MemoryUse, SchedulerSettings, Settings};
use spyre_hal::{ControlBlock, DeviceHandle, DeviceRange, Fault, HostBuffer, MemoryMode, Severity};
use spyre_layout::View;
use spyre_runtime::{Device, DeviceSettings, Error, SpyreStream, SpyreTensor};

use crate::attack::Outcome;
use crate::random::Random;

/// A device, a stream, and slots of memory for tensors with sentinels between them.
pub(crate) struct Bed {
    pub(crate) device: Device,
    pub(crate) stream: SpyreStream,
    /// Sentinels at even places, memory for tensors at odd ones.
    slots: Vec<Slot>,
}

struct Slot {
    handle: DeviceHandle,
    host: HostBuffer,
    /// Bytes that the device should hold.
    known: Vec<u8>,
}

/// Bytes that a launch may have changed.
pub(crate) enum Written<'a> {
    /// The elements of a tensor.
    View(&'a SpyreTensor),
    /// All of its storage.
    Storage(&'a SpyreTensor),
    /// Whatever a table can name: all memory for tensors.
    Tensors,
}

/// Number of tensors that there is memory for.
pub(crate) const TENSORS: usize = 6;
/// Bytes for each.
pub(crate) const TENSOR_BYTES: usize = 10 << 10;
const SENTINEL_BYTES: usize = 256;

/// All that a card may take: past it, requests are refused.
const BUDGET_BYTES: u64 = 64 << 20;
/// Programs that are made to walk over more elements than this are refused, as those of hours are.
const MOST_WORK: u64 = 1 << 24;
/// Whatever still takes long is ended. A busy machine stops others for almost as long.
const LONGEST_NANOSECONDS: u64 = 1_000_000_000;

impl Bed {
    pub(crate) fn open() -> Self {
        let card = SoftwareCard::new(MemoryMode::Vf).with_most_work(MOST_WORK);
        let settings = DeviceSettings {
            memory: Settings {
                region_bytes: vec![256 << 20],
                budget: Arc::new(Budget::new(BUDGET_BYTES)),
            },
            scheduler: SchedulerSettings {
                drive: Some(Drive::Inline),
                watchdog_nanoseconds: Some(LONGEST_NANOSECONDS),
                ..SchedulerSettings::default()
            },
            ..DeviceSettings::default()
        };
        let device = Device::open_with(Arc::new(card), settings).expect("a card");
        let stream = device.default_stream().expect("stream 0");
        let mut bed = Self { device, stream, slots: Vec::new() };
        bed.take_slots();
        bed
    }

    /// Starts the card anew: all that was loaded is gone.
    pub(crate) fn reset(&mut self) {
        self.device.reset().expect("it starts anew");
        self.take_slots();
    }

    fn take_slots(&mut self) {
        self.slots.clear();
        // The first allocation of a card can be named by zeros: no tensor is in it.
        self.stream.flex().allocate(SENTINEL_BYTES as u64).expect("there is room");
        for at in 0..2 * TENSORS + 1 {
            let bytes = if at % 2 == 0 { SENTINEL_BYTES } else { TENSOR_BYTES };
            let handle = self.stream.flex().allocate(bytes as u64).expect("there is room");
            let known = vec![0xff; bytes];
            self.slots.push(Slot { handle, host: HostBuffer::zeroed(bytes), known });
        }
        self.copies(Slot::put);
    }

    /// The memory of a tensor.
    pub(crate) fn slot(&self, tensor: usize) -> DeviceHandle {
        self.slots[2 * tensor + 1].handle
    }

    /// Other numbers in the memory for tensors: small ones of some format, or anything.
    pub(crate) fn refill(&mut self, random: &mut Random) {
        for slot in self.slots.iter_mut().skip(1).step_by(2) {
            let small =
                random.pick(&[1.5_f32.to_bits() as u64, 0x3c00_3c00, 0x3ff0_0000_0000_0000]);
            let is_small = random.one_in(2);
            for word in slot.known.chunks_mut(8) {
                let number = if is_small { small } else { random.number() };
                word.copy_from_slice(&number.to_le_bytes());
            }
        }
        self.copies(Slot::put);
    }

    /// Copies to or from every slot; once more if the machine was so busy that one was ended.
    fn copies(&self, copy: impl Fn(&Slot, &FlexStream) -> Result<(), spyre_flex::Error>) {
        let flex = self.stream.flex();
        loop {
            let queued = self.slots.iter().try_for_each(|slot| copy(slot, flex));
            match queued.and(flex.synchronize()) {
                Ok(()) => return,
                Err(spyre_flex::Error::Stream(failed))
                    if matches!(failed.fault, Fault::Hung { .. }) =>
                {
                    flex.reset().expect("it goes on");
                }
                Err(error) => panic!("a plain copy was refused: {error}"),
            }
        }
    }

    /// Outcome of a launch, after which the stream goes on.
    pub(crate) fn settle(&mut self, launched: Result<(), Error>) -> Outcome {
        let ended = self.stream.synchronize();
        let Some(error) = ended.err().or(launched.err()) else { return Outcome::Ran };
        let text = error.to_string();
        assert!(!text.is_empty(), "an error without a word");
        let Error::Flex(spyre_flex::Error::Stream(failed)) = error else { return Outcome::Refused };
        match failed.fault.severity() {
            Severity::Data => {}
            Severity::Structural => self.stream.flex().reset().expect("it goes on"),
            Severity::Lost => self.reset(),
        }
        assert_eq!(self.stream.synchronize(), Ok(()), "it goes on after: {text}");
        Outcome::Faulted
    }

    /// Compares all memory with what is known of it.
    pub(crate) fn check(&mut self, written: &[Written<'_>]) {
        self.copies(Slot::read);
        for (at, slot) in self.slots.iter_mut().enumerate() {
            let found = slot.host.read().expect("it is back");
            if found[..] != slot.known[..] {
                check_slot(at, slot.handle, &slot.known, &found, written);
                slot.known.copy_from_slice(&found);
            }
        }
    }
}

impl Slot {
    fn range(&self) -> DeviceRange {
        DeviceRange::start_of(self.handle, self.known.len() as u64)
    }

    fn put(&self, flex: &FlexStream) -> Result<(), spyre_flex::Error> {
        flex.copy_to_device(self.known.clone(), self.range()).map(drop)
    }

    /// Reads all bytes, also where a launch that failed should have written: a use that says that all of
    /// it is written, and writes nothing, heals what is poisoned.
    fn read(&self, flex: &FlexStream) -> Result<(), spyre_flex::Error> {
        let all = MemoryUse { range: self.range(), access: MemoryAccess::WriteAll };
        flex.submit_using(&mut vec![ControlBlock::RecordEvent(None)], &[all])?;
        flex.copy_from_device(self.range(), &self.host).map(drop)
    }
}

fn check_slot(
    at: usize,
    handle: DeviceHandle,
    known: &[u8],
    found: &[u8],
    written: &[Written<'_>],
) {
    let mut may_change = vec![false; known.len()];
    for written in written {
        match written {
            Written::Tensors if at % 2 == 1 => may_change.fill(true),
            Written::Storage(tensor) if tensor.device_handle() == handle => {
                let bytes = known.len().min(tensor.layout().device_bytes());
                may_change[..bytes].fill(true);
            }
            Written::View(tensor) if tensor.device_handle() == handle => {
                mark_elements(tensor, &mut may_change);
            }
            _ => {}
        }
    }
    let changed = (0..known.len()).filter(|&byte| known[byte] != found[byte]);
    let strays: Vec<usize> = changed.filter(|&byte| !may_change[byte]).collect();
    let first = strays.first();
    let count = strays.len();
    assert!(strays.is_empty(), "{count} bytes changed, first {first:?} of slot {at} at {handle}");
}

fn mark_elements(tensor: &SpyreTensor, bytes: &mut [bool]) {
    let layout = tensor.layout();
    let width = layout.device_dtype().element_bytes().unwrap_or(1);
    each_element(tensor.view(), |element| {
        if let Some(at) = layout.device_byte(element)
            && let Some(bytes) = bytes.get_mut(at..at + width)
        {
            bytes.fill(true);
        }
    });
}

fn each_element(view: &View, mut act: impl FnMut(usize)) {
    let mut index = vec![0; view.size().len()];
    for _ in 0..view.elements() {
        let steps = index.iter().zip(view.stride()).map(|(at, stride)| at * stride);
        act(view.offset() + steps.sum::<usize>());
        for (at, &size) in index.iter_mut().zip(view.size()).rev() {
            *at += 1;
            if *at < size {
                break;
            }
            *at = 0;
        }
    }
}
