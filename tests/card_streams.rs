//! Streams on the software card: data goes there and back, and memory goes back to the host.

use std::sync::Arc;

use spyre::card::{SoftwareCard, Threads};
use spyre::flex::{
    Context, Drive, Error, Event, FlexStream, Machine, Priority, SchedulerSettings, Settings,
};
use spyre::hal::{DeviceRange, Hardware, HostBuffer, LateCard, MemoryMode, Pattern};
use spyre::layout::{DmaNest, Endpoint, SpyreTensorLayout, View};
use spyre::numerics::DataFormat::IeeeFp16;

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % bound
    }

    fn bytes(&mut self, count: u64) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

fn workers(card: Arc<dyn Hardware>) -> Result<Context, Error> {
    let settings =
        SchedulerSettings { drive: Some(Drive::Workers), ..SchedulerSettings::default() };
    Context::open_with(card, Settings::default(), settings, Arc::new(Machine::default()))
}

fn allocate(stream: &FlexStream, bytes: u64) -> Result<DeviceRange, Error> {
    Ok(DeviceRange::start_of(stream.allocate(bytes)?, bytes))
}

fn read(stream: &FlexStream, range: DeviceRange) -> Result<Vec<u8>, Error> {
    let host = HostBuffer::from(vec![0xee; range.bytes as usize]);
    stream.copy_from_device(range, &host)?;
    stream.synchronize()?;
    Ok(host.read()?.to_vec())
}

/// A chain over three streams: up, tiled on the way, sideways, and back.
fn round_trip(context: &Context, shape: [usize; 2], seed: u64) -> Result<(), Error> {
    let streams = [Priority::Low, Priority::High, Priority::Low].map(|p| context.stream(p));
    let [up, across, down] = streams;
    let up = up?;
    let across = across?;
    let down = down?;
    let view = View::contiguous(&shape).expect("a view");
    let layout = SpyreTensorLayout::contiguous(&shape, IeeeFp16).expect("a layout");
    let host = Endpoint::host(&view, IeeeFp16);
    let device = Endpoint::device(&view, &layout);
    let nest = |from, to| Arc::new(DmaNest::derive(from, to).expect("one size"));
    let bytes = Random(seed).bytes(view.elements() as u64 * 2);
    let first = allocate(&up, layout.device_bytes() as u64)?;
    let second = allocate(&up, layout.device_bytes() as u64)?;
    let loaded = Event::new();
    let moved = Event::new();

    up.copy_to_device_with(&nest(host, device), bytes.clone(), first)?;
    up.record(&loaded)?;
    across.wait(&loaded)?;
    across.copy_on_device(first, second, None)?;
    across.record(&moved)?;
    down.wait(&moved)?;
    let target = HostBuffer::zeroed(bytes.len());
    down.copy_from_device_with(&nest(device, host), second, &target)?;
    down.synchronize()?;
    assert!(target.read()?[..] == bytes[..], "{shape:?}");
    context.free(first.handle)?;
    context.free(second.handle)
}

fn round_trips(card: Arc<dyn Hardware>) -> Result<(), Error> {
    let context = Context::open(card)?;
    for (seed, shape) in [[1, 1], [64, 64], [3, 100], [7, 65], [300, 1000], [2048, 1500]]
        .into_iter()
        .cycle()
        .take(18)
        .enumerate()
    {
        round_trip(&context, shape, seed as u64)?;
    }
    context.synchronize()
}

#[test]
fn data_goes_there_and_back_over_several_streams() -> Result<(), Error> {
    for mode in [MemoryMode::Pf, MemoryMode::Vf] {
        round_trips(Arc::new(SoftwareCard::new(mode)))?;
        round_trips(Arc::new(SoftwareCard::new(mode).with_engines(4)))?;
    }
    Ok(())
}

#[test]
fn the_runtime_has_no_side_door_to_device_memory() -> Result<(), Error> {
    let card = || SoftwareCard::new(MemoryMode::Vf).with_engines(3).guarded();
    round_trips(Arc::new(card()))?;
    round_trips(Arc::new(LateCard::new(card(), 3)))
}

#[test]
fn large_copies_are_exact_with_any_number_of_threads() -> Result<(), Error> {
    const BYTES: u64 = (40 << 20) + 77;
    let bytes = Random(5).bytes(BYTES);
    for threads in [1, 2, 5] {
        let card = SoftwareCard::new(MemoryMode::Vf).with_threads(Threads::new(threads));
        let context = Context::open(Arc::new(card))?;
        let stream = context.stream(Priority::Low)?;
        let all = allocate(&stream, 3 * BYTES)?;
        let [first, second] =
            [1, BYTES + 66].map(|offset| DeviceRange { offset, bytes: BYTES, ..all });
        stream.copy_to_device(bytes.clone(), first)?;
        stream.copy_on_device(first, second, None)?;
        assert!(read(&stream, second)? == bytes, "{threads} threads");
        stream.fill(second, Pattern::new(&[1, 2, 3]).expect("three bytes"))?;
        let filled = read(&stream, second)?;
        assert!(filled.iter().zip([1, 2, 3].iter().cycle()).all(|(a, b)| a == b));
        assert!(read(&stream, first)? == bytes, "a fill leaves its neighbours");
    }
    Ok(())
}

/// A stream with memory of its own, and what should be in it.
struct Model {
    stream: FlexStream,
    memory: DeviceRange,
    bytes: Vec<u8>,
}

const MODEL_BYTES: u64 = 48 << 10;

impl Model {
    fn open(context: &Context) -> Result<Self, Error> {
        let stream = context.stream(Priority::Low)?;
        let memory = allocate(&stream, MODEL_BYTES)?;
        stream.fill(memory, 0)?;
        Ok(Self { stream, memory, bytes: vec![0; MODEL_BYTES as usize] })
    }

    /// Some bytes of the memory.
    fn piece(&self, random: &mut Random, most: u64) -> DeviceRange {
        let bytes = 1 + random.below(most);
        DeviceRange { offset: random.below(MODEL_BYTES - bytes + 1), bytes, ..self.memory }
    }

    fn should_be(&mut self, range: DeviceRange) -> &mut [u8] {
        &mut self.bytes[range.offset as usize..][..range.bytes as usize]
    }

    fn write(&mut self, random: &mut Random) -> Result<(), Error> {
        let target = self.piece(random, 600);
        let source = random.bytes(target.bytes);
        self.should_be(target).copy_from_slice(&source);
        match random.below(2) {
            0 => self.stream.copy_staged(&source, target).map(drop),
            _ => self.stream.copy_to_device(source, target).map(drop),
        }
    }

    fn fill(&mut self, random: &mut Random) -> Result<(), Error> {
        let target = self.piece(random, 3000);
        let length = 1 + random.below(4);
        let pattern = Pattern::new(&random.bytes(length)).expect("one to four");
        pattern.fill(self.should_be(target));
        self.stream.fill(target, pattern).map(drop)
    }

    /// Copies from one half to the other, so that the two do not overlap.
    fn shift(&mut self, random: &mut Random) -> Result<(), Error> {
        let half = MODEL_BYTES / 2;
        let bytes = 1 + random.below(4000);
        let low = random.below(half - bytes);
        let high = half + random.below(half - bytes);
        let [from, to] = if random.below(2) == 0 { [low, high] } else { [high, low] };
        self.bytes.copy_within(from as usize..(from + bytes) as usize, to as usize);
        let [source, target] =
            [from, to].map(|offset| DeviceRange { offset, bytes, ..self.memory });
        self.stream.copy_on_device(source, target, None).map(drop)
    }

    /// Copies from another stream's memory: both wait for each other, by events.
    fn take(&mut self, other: &mut Self, random: &mut Random) -> Result<(), Error> {
        let source = other.piece(random, 2000);
        let offset = random.below(MODEL_BYTES - source.bytes);
        let target = DeviceRange { offset, bytes: source.bytes, ..self.memory };
        self.should_be(target).copy_from_slice(other.should_be(source));
        let written = Event::new();
        let taken = Event::new();
        other.stream.record(&written)?;
        self.stream.wait(&written)?;
        self.stream.copy_on_device(source, target, None)?;
        self.stream.record(&taken)?;
        other.stream.wait(&taken)
    }

    fn check(&self) -> Result<(), Error> {
        assert!(read(&self.stream, self.memory)? == self.bytes, "{:?}", self.stream.index());
        Ok(())
    }
}

#[test]
fn a_hundred_thousand_random_copies_do_as_a_model() -> Result<(), Error> {
    let card = SoftwareCard::new(MemoryMode::Vf).with_engines(4);
    let context = workers(Arc::new(card))?;
    let mut models = (0..6).map(|_| Model::open(&context)).collect::<Result<Vec<_>, _>>()?;
    let mut random = Random(17);
    for copy in 1..=100_000 {
        let count = models.len() as u64;
        let which = random.below(count) as usize;
        let mut others = models.split_off(which);
        let (model, rest) = others.split_first_mut().expect("it is there");
        match random.below(10) {
            0..4 => model.write(&mut random)?,
            4..6 => model.fill(&mut random)?,
            6..8 => model.shift(&mut random)?,
            _ => {
                let other = rest.first_mut().or(models.first_mut()).expect("there are six");
                model.take(other, &mut random)?;
            }
        }
        models.append(&mut others);
        if copy % 5_000 == 0 {
            models.iter().try_for_each(Model::check)?;
        }
    }
    context.synchronize()
}

#[test]
fn what_one_context_wrote_the_next_one_does_not_read() -> Result<(), Error> {
    const BYTES: u64 = 8 << 20;
    for mode in [MemoryMode::Pf, MemoryMode::Vf] {
        let card: Arc<dyn Hardware> = Arc::new(SoftwareCard::new(mode).with_regions(2, 1 << 30));
        let settings = || Settings { region_bytes: vec![1 << 30], ..Settings::default() };
        for round in 0..4 {
            let context = Context::open_with(
                card.clone(),
                settings(),
                SchedulerSettings::default(),
                Arc::new(Machine::default()),
            )?;
            let stream = context.stream(Priority::Low)?;
            let range = allocate(&stream, BYTES)?;
            assert!(read(&stream, range)?.iter().all(|&byte| byte == 0), "{mode:?} {round}");
            stream.fill(range, 0x5a)?;
            stream.synchronize()?;
            context.reset()?;
            let again = allocate(&stream, BYTES)?;
            assert!(read(&stream, again)?.iter().all(|&byte| byte == 0), "after a reset");
            stream.fill(again, 0xa5)?;
            stream.synchronize()?;
        }
    }
    Ok(())
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Runs best in a process of its own, as nextest does: memory of other tests is counted, too.
#[test]
fn memory_that_is_freed_goes_back_to_the_host() -> Result<(), Error> {
    const BYTES: u64 = 512 << 20;
    const SLACK: u64 = 200 << 20; // what the other tests of this file may hold
    let context = Context::open(Arc::new(SoftwareCard::new(MemoryMode::Vf)))?;
    let stream = context.stream(Priority::Low)?;
    for pieces in [1, 8, 2048] {
        let before = resident_bytes();
        let ranges = (0..pieces).map(|_| allocate(&stream, BYTES / pieces));
        let ranges = ranges.collect::<Result<Vec<_>, _>>()?;
        ranges.iter().try_for_each(|range| stream.fill(*range, 1).map(drop))?;
        stream.synchronize()?;
        let full = resident_bytes();
        assert!(full + SLACK > before + BYTES, "{before} to {full}");
        ranges.iter().try_for_each(|range| context.free(range.handle))?;
        context.allocator().empty_cache();
        let after = resident_bytes();
        assert!(after < full - BYTES + SLACK, "{full} to {after} in {pieces} pieces");
    }
    Ok(())
}
