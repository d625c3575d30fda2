//! Copies to and from the software card, through a stream, against the best plain copy.
#![allow(unsafe_code, reason = "lends benchmark buffers to copies by address")]

use std::hint::black_box;
use std::sync::Arc;

use spyre_card::{SoftwareCard, Threads};
use spyre_flex::{Context, FlexStream, Priority};
use spyre_hal::{ControlBlock, CopyToDevice, DeviceRange, HostSource, HostTarget, MemoryMode};
use spyre_layout::{Crew, DmaNest, Endpoint, SpyreTensorLayout, View};
use spyre_numerics::DataFormat::IeeeFp32;

use crate::peer::Plain;
use crate::{Bar, Benchmark, Buffer};

const BYTES: usize = 64 << 20;

/// Both directions, with the threads of `crew` on both sides: those whose names hold `filter`, as
/// each takes a lot of memory.
///
/// # Panics
/// If the card cannot be opened.
pub fn all<'a>(crew: &'a dyn Crew, filter: &str) -> Vec<Benchmark<'a>> {
    type Make<'a> = fn(String, &'a dyn Crew) -> Benchmark<'a>;
    let copies: [(&str, Make<'a>); 3] = [
        ("copy_to_device of 64 MiB", |name, crew| to_device(name, crew, None)),
        ("copy_from_device of 64 MiB", from_device),
        ("copy_to_device of 64 MiB, tiled", |name, crew| to_device(name, crew, Some(tiling()))),
    ];
    let threads = crew.threads();
    let named = copies.map(|(name, make)| {
        (format!("{name}, {threads} thread{}", if threads > 1 { "s" } else { "" }), make)
    });
    let wanted = named.into_iter().filter(|(name, _)| name.contains(filter));
    wanted.map(|(name, make)| make(name, crew)).collect()
}

/// Copies bytes to the device, as they are or by a nest.
fn to_device(name: String, crew: &dyn Crew, nest: Option<Arc<DmaNest>>) -> Benchmark<'_> {
    let (stream, target) = open(crew.threads());
    let buffer = Arc::new(Buffer::new(BYTES));
    let copy = move || {
        // SAFETY: the buffer is kept alive, and no code writes it.
        let source = unsafe { HostSource::foreign(buffer.as_ptr(), BYTES, buffer.clone()) };
        let copy = CopyToDevice { source, target, nest: nest.clone() };
        let block = ControlBlock::CopyToDevice(Box::new(copy));
        stream.submit([block]).expect("a legal copy");
        stream.synchronize().expect("no fault");
    };
    beside_plain(name, crew, copy)
}

/// A matrix of 4096 by 4096 floats, from rows to sticks.
fn tiling() -> Arc<DmaNest> {
    let view = View::contiguous(&[4096, 4096]).expect("a view");
    let layout = SpyreTensorLayout::contiguous(view.size(), IeeeFp32).expect("a layout");
    let ends = (Endpoint::host(&view, IeeeFp32), Endpoint::device(&view, &layout));
    Arc::new(DmaNest::derive(ends.0, ends.1).expect("a legal copy"))
}

fn from_device(name: String, crew: &dyn Crew) -> Benchmark<'_> {
    let (stream, range) = open(crew.threads());
    let mut buffer = Buffer::new(BYTES);
    let start = buffer.as_mut_ptr();
    let target = Arc::new(buffer);
    let copy = move || {
        // SAFETY: the buffer is kept alive, and no other code uses its bytes.
        let target = unsafe { HostTarget::foreign(start, BYTES, target.clone()) };
        stream.copy_from_device(range, target).expect("a legal copy");
        stream.synchronize().expect("no fault");
    };
    beside_plain(name, crew, copy)
}

/// A card that copies with so many threads, and memory that was written before.
fn open(threads: usize) -> (FlexStream, DeviceRange) {
    let card = SoftwareCard::new(MemoryMode::Vf).with_threads(Threads::new(threads));
    let context = Context::open(Arc::new(card)).expect("a card");
    let stream = context.stream(Priority::Low).expect("a stream");
    let handle = stream.allocate(BYTES as u64).expect("memory");
    let range = DeviceRange::start_of(handle, BYTES as u64);
    stream.fill(range, 1).expect("live memory");
    stream.synchronize().expect("no fault");
    (stream, range)
}

fn beside_plain<'a>(name: String, crew: &'a dyn Crew, ours: impl FnMut() + 'a) -> Benchmark<'a> {
    let source = Buffer::new(BYTES);
    let mut target = Buffer::new(BYTES);
    let plain = Plain::fastest(&source, &mut target, crew);
    Benchmark::new(name, Bar::AtLeast(0.85), ours, plain.name(), move || {
        plain.copy(black_box(&source), black_box(&mut target), crew);
    })
}
