//! Tenants see nothing of each other, and no text shows where the host or the device keeps things.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use spyre::artifact::samples::{self, Elements};
use spyre::card::SoftwareCard;
use spyre::flex::{
    ControlBlockStream, Drive, Event, FlexStream, Machine, SchedulerSettings, Settings,
};
use spyre::hal::{ControlBlock, DeviceHandle, DeviceRange, HostBuffer, Label, MemoryMode, Regions};
use spyre::layout::View;
use spyre::numerics::DType;
use spyre::runtime::blocking::{DMAEngine, LocationInSegment, Program};
use spyre::runtime::{
    CPUTensor, Device, DeviceSettings, Error, ExecutionPlan, Operation, PreProcessCompute,
    SpyreStream, SpyreTensor, launch_kernel,
};

const REGION_BYTES: u64 = 1 << 20;
const SECRET: u8 = 0xab;

/// A tenant of a card. Nothing of it lives on when it is dropped.
fn tenant(card: &Arc<SoftwareCard>) -> Device {
    let memory = Settings { region_bytes: vec![REGION_BYTES], ..Settings::default() };
    let drive = Some(Drive::Inline);
    let scheduler = SchedulerSettings { drive, ..SchedulerSettings::default() };
    let settings = DeviceSettings { memory, scheduler, ..DeviceSettings::default() };
    Device::open_with(Arc::clone(card) as Arc<_>, settings).expect("a tenant")
}

fn card(regions: u16) -> Arc<SoftwareCard> {
    Arc::new(SoftwareCard::new(MemoryMode::Vf).with_regions(regions, REGION_BYTES))
}

/// Takes a whole region and writes a secret to every byte of it.
fn plant(device: &Device) -> Result<DeviceHandle, Error> {
    let stream = device.default_stream()?;
    let memory = stream.flex().allocate(REGION_BYTES)?;
    stream.flex().fill(DeviceRange::start_of(memory, REGION_BYTES), SECRET)?;
    stream.synchronize()?;
    assert!(all_of(&stream, memory)?.iter().all(|&byte| byte == SECRET));
    Ok(memory)
}

fn all_of(stream: &SpyreStream, memory: DeviceHandle) -> Result<Vec<u8>, Error> {
    let host = HostBuffer::from(vec![1; REGION_BYTES as usize]);
    stream.flex().copy_from_device(DeviceRange::start_of(memory, REGION_BYTES), &host)?;
    stream.synchronize()?;
    Ok(host.read()?.to_vec())
}

/// Takes a whole region, as soon as there is one, and expects nothing in it.
fn find_nothing(device: &Device) -> Result<DeviceHandle, Error> {
    let stream = device.default_stream()?;
    let memory = stream.flex().allocate(REGION_BYTES)?;
    assert!(all_of(&stream, memory)?.iter().all(|&byte| byte == 0), "another tenant's bytes");
    Ok(memory)
}

#[test]
fn tenants_of_one_card_read_zeros_where_others_wrote() -> Result<(), Error> {
    let card = card(2);
    let first = tenant(&card);
    let second = tenant(&card);
    let planted = plant(&first)?;
    let found = find_nothing(&second)?;
    assert_ne!(planted.to_words(), found.to_words());

    // The other's handle is no key.
    let stream = second.default_stream()?;
    let refusal = stream.flex().fill(DeviceRange::start_of(planted, 1), 0).expect_err("not ours");
    assert!(refusal.to_string().contains("not a live allocation"), "{refusal}");
    Ok(())
}

#[test]
fn a_region_is_empty_when_the_next_tenant_has_it() -> Result<(), Error> {
    let card = card(1);
    for round in 0..3 {
        let first = tenant(&card);
        let memory = plant(&first)?;
        if round > 0 {
            first.context().free(memory)?; // freed, kept, given back: it makes no difference
        }
        if round > 1 {
            first.allocator().empty_cache();
        }
        drop(first);

        let second = tenant(&card);
        let again = find_nothing(&second)?;
        assert_eq!(memory.location(), again.location(), "the same place");
        assert_ne!(memory, again, "and another handle");
    }
    Ok(())
}

#[test]
fn a_reset_leaves_nothing_either() -> Result<(), Error> {
    let device = tenant(&card(1));
    let memory = plant(&device)?;
    device.reset()?;
    assert_eq!(find_nothing(&device)?.location(), memory.location());
    Ok(())
}

#[test]
fn another_card_of_the_process_shares_nothing() -> Result<(), Error> {
    let first = tenant(&card(1));
    let planted = plant(&first)?;
    let second = tenant(&card(1));
    assert_eq!(find_nothing(&second)?.location(), planted.location());
    drop((first, second));
    find_nothing(&tenant(&card(1))).map(drop)
}

/// Texts of everything that can be printed, with what it is.
#[derive(Default)]
struct Seen(Vec<(&'static str, String)>);

impl Seen {
    fn debug(&mut self, what: &'static str, value: &(impl Debug + ?Sized)) {
        self.0.push((what, format!("{value:?}")));
    }

    fn both(&mut self, what: &'static str, value: &(impl Debug + std::fmt::Display)) {
        self.debug(what, value);
        self.0.push((what, value.to_string()));
    }

    /// Each word once, with where it was seen first: whole devices are in these texts, often.
    fn words(&self) -> BTreeMap<&str, &'static str> {
        let mut words = BTreeMap::new();
        for (what, text) in &self.0 {
            for word in text.split(|letter: char| !letter.is_ascii_alphanumeric()) {
                words.entry(word).or_insert(*what);
            }
        }
        words
    }

    fn refused<T: Debug>(&mut self, what: &'static str, result: Result<T, Error>) {
        self.both(what, &result.expect_err(what));
    }

    fn refused_below<T: Debug>(
        &mut self,
        what: &'static str,
        result: Result<T, spyre::flex::Error>,
    ) {
        self.both(what, &result.expect_err(what));
    }
}

/// Uses everything once and gets much wrong, and looks at all of it.
fn everything(card: &Arc<SoftwareCard>) -> Result<Seen, Error> {
    let mut seen = Seen::default();
    let device = Device::open(Arc::clone(card) as Arc<_>)?;
    let stream = device.default_stream()?;
    device.context().scheduler().set_tracing(true);
    let f32 = Elements::exact(DType::Float32);
    let plan = ExecutionPlan::from_compiler_output(samples::matmul(f32, Some([16, 16, 16]))?)?;
    plan.load(&stream)?;
    let host = CPUTensor::from_values(&[40, 40], &[1.5_f32; 1600])?;
    let [a, b] = [SpyreTensor::from_host(&stream, &host)?, SpyreTensor::from_host(&stream, &host)?];
    let c = SpyreTensor::empty(&stream, &[40, 40], DType::Float32)?;
    let point = launch_kernel(&stream, &plan, &[a.clone(), b.clone(), c.clone()])?;
    let back = c.to_host(&stream)?;
    stream.synchronize()?;

    runtime_types(&mut seen, &stream, &plan, &[a.clone(), b.clone(), c.clone()])?;
    seen.debug("host tensor", &back);
    seen.debug("ticket", &stream.ticket(point));
    let range = DeviceRange::start_of(c.device_handle(), c.size_bytes());
    flex_types(&mut seen, stream.flex(), range)?;
    faults(&mut seen, &device, &stream, &plan, &[a, b, c])?;
    device_types(&mut seen, &device, card);
    Ok(seen)
}

fn runtime_types(
    seen: &mut Seen,
    stream: &SpyreStream,
    plan: &ExecutionPlan,
    tensors: &[SpyreTensor],
) -> Result<(), Error> {
    seen.debug("plan", plan);
    for operation in plan.operations() {
        seen.debug("operation", operation);
        seen.debug("steps", operation.steps());
        seen.debug("compute", operation.compute().expect("it computes"));
        seen.debug("binaries", &operation.device_handles());
        let compute = operation.compute().expect("it computes");
        seen.debug("entry image", &compute.read_entry(stream)?);
    }
    for tensor in tensors {
        seen.debug("tensor", tensor);
        seen.both("handle", &tensor.device_handle());
        seen.both("range", &DeviceRange::start_of(tensor.device_handle(), tensor.size_bytes()));
        seen.debug("part of a tensor", &tensor.narrow(1, 3, 7)?);
    }
    let engine = DMAEngine::new(stream);
    let output = samples::addition(Elements::exact(DType::Float32), Some([4, 8]))?;
    let program = Program::from_plan(&ExecutionPlan::from_compiler_output(output)?);
    seen.debug("engine", &engine);
    engine.copy_program(&program, engine.allocate_program(&program)?)?;
    seen.debug("program", &program);
    seen.debug("instructions", program.instructions());
    let location = LocationInSegment::allocate(stream, 4096)?;
    seen.debug("location", &location);
    Ok(())
}

fn flex_types(seen: &mut Seen, flex: &FlexStream, range: DeviceRange) -> Result<(), Error> {
    let event = Event::timed();
    flex.record(&event)?;
    flex.synchronize()?;
    seen.debug("event", &event);
    let mut composed = ControlBlockStream::new();
    composed.append(ControlBlock::Fill { pattern: 0.into(), target: range })?;
    seen.debug("composed", &composed);
    composed.finalize()?;
    composed.replay(flex)?;
    flex.synchronize()?;
    let launch = ControlBlock::launch(range.handle, Label::named("secret"));
    seen.debug("block", &launch);
    seen.debug("staged", &flex.stage(&[1, 2, 3], DeviceRange { bytes: 3, ..range }));
    seen.debug("stream", flex);
    Ok(())
}

/// Provokes errors, at the call and later.
fn faults(
    seen: &mut Seen,
    device: &Device,
    stream: &SpyreStream,
    plan: &ExecutionPlan,
    tensors: &[SpyreTensor],
) -> Result<(), Error> {
    let flex = stream.flex();
    let handle = tensors[0].device_handle();
    let bytes = tensors[0].size_bytes();
    let freed = flex.allocate(4096)?;
    device.context().free(freed)?;
    let past = DeviceRange { handle, offset: bytes, bytes: 1 };
    seen.refused_below("past the end", flex.fill(past, 0));
    seen.refused_below("freed", flex.fill(DeviceRange::start_of(freed, 1), 0));
    seen.refused_below("freed twice", device.context().free(freed));
    seen.refused_below("too much", flex.allocate(1 << 60));
    seen.refused("too few", launch_kernel(stream, plan, &tensors[..2]));
    let view = View::contiguous(&[40, 40])?;
    let layout = tensors[0].layout().clone();
    let stale = SpyreTensor::at(device, freed, layout, DType::Float32, view)?;
    let [_, b, c] = tensors else { panic!("three tensors") };
    seen.refused("gone", launch_kernel(stream, plan, &[stale, b.clone(), c.clone()]));

    let mut fault = |what, queue: &dyn Fn() -> Result<(), Error>| -> Result<(), Error> {
        queue()?;
        seen.refused(what, stream.synchronize());
        flex.reset()?;
        Ok(())
    };
    fault("no program", &|| Ok(flex.launch(handle).map(drop)?))?;
    let operation = &plan.operations()[0];
    let [correction, entry, code] = operation.device_handles()[..] else { panic!("three") };
    fault("shared code", &|| Ok(flex.launch(code).map(drop)?))?;
    fault("protected", &|| Ok(flex.fill(DeviceRange::start_of(entry, 128), 0).map(drop)?))?;
    fault("a bad operand", &|| {
        let words = [0x40_u8; 26 * 8];
        let input = DeviceRange { handle: correction, offset: 128, bytes: words.len() as u64 };
        let source = spyre::runtime::HostAddress::Buffer(HostBuffer::from(words.to_vec()));
        let copy = PreProcessCompute::copy_to_device(source, input);
        stream.launch(&Operation::preprocessing(vec![copy]), &[])?;
        flex.launch(correction)?;
        flex.launch(entry)?;
        Ok(())
    })?;
    fault("a garbled image", &|| {
        flex.copy_to_device(vec![0x5a; 64], DeviceRange::start_of(entry, 64))?;
        flex.launch(entry)?;
        Ok(())
    })
}

fn device_types(seen: &mut Seen, device: &Device, card: &Arc<SoftwareCard>) {
    seen.debug("device", device);
    seen.debug("context", device.context());
    seen.debug("scheduler", device.context().scheduler());
    seen.debug("allocator", device.allocator());
    seen.debug("snapshot", &device.allocator().snapshot());
    seen.debug("statistics", &device.allocator().statistics());
    seen.debug("budget", device.allocator().budget());
    seen.debug("card", card);
    seen.debug("hardware", device.context().hardware());
    seen.debug("description", &spyre::hal::Hardware::description(&**card));
    for record in device.context().scheduler().flight_record() {
        seen.both("record", &record);
    }
    let region = card.try_allocate(4096).expect("one more");
    seen.debug("region", &region);
    card.release(region.id);
    seen.debug("machine", &Machine::default());
}

/// An address in every way that a text may show it.
fn spellings(address: u64) -> Vec<String> {
    let swapped = address.swap_bytes();
    vec![
        format!("{address}"),
        format!("{address:x}"),
        format!("{address:X}"),
        format!("{swapped}"),
        format!("{swapped:x}"),
        format!("{swapped:X}"),
        format!("{:x}", address >> 12),
    ]
}

#[test]
fn a_virtual_function_prints_no_address() -> Result<(), Error> {
    const BASE: u64 = 0x5a17_c3d9_b000;
    let card = SoftwareCard::new(MemoryMode::Vf).with_base_address(BASE);
    let seen = everything(&Arc::new(card))?;
    assert!(seen.0.len() > 100, "{} texts", seen.0.len());
    // Of the first region, of the next ones, and of what lies in them.
    let spacing = 12 << 30;
    let addresses =
        (0..3).flat_map(|region| (0..16).map(move |unit| BASE + region * spacing + unit * 128));
    let words = seen.words();
    for secret in addresses.flat_map(spellings) {
        let leak = words.iter().find(|(word, _)| word.contains(&secret));
        assert_eq!(leak, None, "{secret}");
    }
    for bytes in [BASE.to_le_bytes(), BASE.to_be_bytes()] {
        let secret = format!("{bytes:?}");
        assert!(seen.0.iter().all(|(_, text)| !text.contains(&secret)), "{secret}");
    }
    Ok(())
}

/// Address ranges of this process's memory.
#[cfg(target_os = "linux")]
fn mappings() -> Vec<Range<u64>> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    let range = |line: &str| {
        let (start, end) = line.split_whitespace().next()?.split_once('-')?;
        let parse = |text| u64::from_str_radix(text, 16).ok();
        Some(parse(start)?..parse(end)?)
    };
    maps.lines().filter_map(range).collect()
}

/// Numbers that a word may be: decimal or hexadecimal.
fn numbers(word: &str) -> impl Iterator<Item = u64> {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    [word.parse().ok(), u64::from_str_radix(digits, 16).ok()].into_iter().flatten()
}

#[test]
#[cfg(target_os = "linux")]
fn no_mode_prints_a_pointer_of_the_host() -> Result<(), Error> {
    for mode in [MemoryMode::Vf, MemoryMode::Pf] {
        let card = Arc::new(SoftwareCard::new(mode));
        let before = mappings();
        let seen = everything(&card)?;
        let mapped: Vec<_> = before.into_iter().chain(mappings()).collect();
        let here = std::ptr::from_ref(&seen).addr() as u64;
        assert!(numbers(&format!("{here:x}")).any(|number| is_in(&mapped, number)), "a pointer");
        for (word, what) in seen.words() {
            let leak = numbers(word).find(|&number| is_in(&mapped, number));
            assert_eq!(leak, None, "{what}: {word}");
        }
    }
    Ok(())
}

fn is_in(mapped: &[Range<u64>], number: u64) -> bool {
    mapped.iter().any(|range| range.contains(&number))
}
