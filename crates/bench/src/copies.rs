//! Copies between host and device layouts, against the best copy of as many bytes.

use std::hint::black_box;

use spyre_layout::{Crew, DmaNest, Endpoint, SpyreTensorLayout, View};
use spyre_numerics::DataFormat::{self, BFloat16, IeeeFp16, IeeeFp32, IeeeInt32, Sen169Fp16};

use crate::peer::Plain;
use crate::{Bar, Benchmark, Buffer};

const SIDE: usize = 4096;

/// One row of the speed table.
#[derive(Debug)]
pub struct Copy {
    name: String,
    bar: f64,
    nest: DmaNest,
    source_bytes: usize,
    target_bytes: usize,
}

/// Every large copy of the speed table.
///
/// # Panics
/// If one of them is not a legal copy.
pub fn table() -> Vec<Copy> {
    let mut copies = Vec::new();
    for format in [IeeeFp32, IeeeFp16, BFloat16, IeeeInt32] {
        copies.push(Copy::to_device(format, format, 0.9));
    }
    for format in [IeeeFp32, IeeeFp16, BFloat16, IeeeInt32] {
        copies.push(Copy::from_device(format, format, 0.8));
    }
    copies.push(Copy::to_device(IeeeFp16, Sen169Fp16, 0.75));
    copies.push(Copy::from_device(Sen169Fp16, IeeeFp16, 0.75));
    copies.push(Copy::to_device(IeeeFp32, Sen169Fp16, 0.7));
    copies.push(Copy::to_device(IeeeFp32, BFloat16, 0.7));
    for format in [IeeeFp16, IeeeFp32] {
        copies.push(Copy::transposed(format));
        copies.push(Copy::sliced_to_device(format));
        copies.push(Copy::sliced_from_device(format));
        copies.push(Copy::sliced_on_device(format));
        copies.push(Copy::restickified(format));
    }
    copies
}

impl Copy {
    /// Name of the copy.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// This copy beside the fastest plain one, with the threads of `crew`.
    pub fn benchmark<'a>(&self, crew: &'a dyn Crew) -> Benchmark<'a> {
        let source = Buffer::new(self.source_bytes);
        let mut target = Buffer::new(self.target_bytes);
        let peer_bytes = self.moved_bytes().div_ceil(2).next_multiple_of(1 << 16);
        let peer_source = Buffer::new(peer_bytes);
        let mut peer_target = Buffer::new(peer_bytes);
        let plain = Plain::fastest(&peer_source, &mut peer_target, crew);
        let nest = self.nest.clone();
        let threads = crew.threads();
        Benchmark::new(
            format!("{}, {threads} thread{}", self.name, if threads > 1 { "s" } else { "" }),
            Bar::AtLeast(self.bar),
            move || {
                nest.copy(black_box(&source), black_box(&mut target), crew).expect("a legal copy");
            },
            plain.name(),
            move || plain.copy(black_box(&peer_source), black_box(&mut peer_target), crew),
        )
    }

    /// Bytes read and written.
    fn moved_bytes(&self) -> usize {
        let width = |format: DataFormat| format.element_bytes().expect("addressable");
        let per_element = width(self.nest.source_format()) + width(self.nest.target_format());
        self.nest.elements() * per_element
    }

    fn to_device(host: DataFormat, device: DataFormat, bar: f64) -> Self {
        let view = whole();
        let layout = tiled(device);
        let ends = (Endpoint::host(&view, host), Endpoint::device(&view, &layout));
        Self::between(format!("host -> device {}", arrow(host, device)), bar, ends)
    }

    fn from_device(device: DataFormat, host: DataFormat, bar: f64) -> Self {
        let view = whole();
        let layout = tiled(device);
        let ends = (Endpoint::device(&view, &layout), Endpoint::host(&view, host));
        Self::between(format!("device -> host {}", arrow(device, host)), bar, ends)
    }

    fn transposed(format: DataFormat) -> Self {
        let transposed = View::new(&[SIDE, SIDE], &[1, SIDE], 0).expect("a view");
        let view = whole();
        let layout = tiled(format);
        let ends = (Endpoint::host(&transposed, format), Endpoint::device(&view, &layout));
        Self::between(format!("transposed source {}", format.name()), 0.4, ends)
    }

    fn sliced_to_device(format: DataFormat) -> Self {
        let slice = sliced();
        let layout = SpyreTensorLayout::contiguous(slice.size(), format).expect("a layout");
        let view = View::contiguous(slice.size()).expect("a view");
        let ends = (Endpoint::host(&slice, format), Endpoint::device(&view, &layout));
        Self::between(format!("host [:, 3:] -> device {}", format.name()), 0.4, ends)
    }

    fn sliced_from_device(format: DataFormat) -> Self {
        let slice = sliced();
        let layout = tiled(format);
        let view = View::contiguous(slice.size()).expect("a view");
        let ends = (Endpoint::device(&slice, &layout), Endpoint::host(&view, format));
        Self::between(format!("device [:, 3:] -> host {}", format.name()), 0.4, ends)
    }

    fn sliced_on_device(format: DataFormat) -> Self {
        let slice = sliced();
        let layout = tiled(format);
        let view = View::contiguous(slice.size()).expect("a view");
        let target = SpyreTensorLayout::contiguous(slice.size(), format).expect("a layout");
        let ends = (Endpoint::device(&slice, &layout), Endpoint::device(&view, &target));
        Self::between(format!("device [:, 3:] -> device {}", format.name()), 0.4, ends)
    }

    fn restickified(format: DataFormat) -> Self {
        let view = whole();
        let layout = tiled(format);
        let mut target = layout.clone();
        target.set_stick_dims(&[0]).expect("dimension 0 exists");
        let ends = (Endpoint::device(&view, &layout), Endpoint::device(&view, &target));
        Self::between(format!("restickify {}", format.name()), 0.4, ends)
    }

    fn between(name: String, bar: f64, ends: (Endpoint<'_>, Endpoint<'_>)) -> Self {
        let nest = DmaNest::derive(ends.0, ends.1).expect("a legal copy");
        let source_bytes = nest.source_reach_bytes();
        let target_bytes = nest.target_reach_bytes();
        Self { name, bar, nest, source_bytes, target_bytes }
    }
}

/// The fixed costs: one stick, and deriving a nest, against a call of memcpy with one stick.
///
/// # Panics
/// If the copy is not legal.
pub fn fixed_costs<'a>() -> Vec<Benchmark<'a>> {
    const REPEATS: usize = 20_000;
    let stick = View::contiguous(&[64]).expect("a view");
    let stick_layout = SpyreTensorLayout::contiguous(&[64], IeeeFp16).expect("a layout");
    let ends = (Endpoint::host(&stick, IeeeFp16), Endpoint::device(&stick, &stick_layout));
    let nest = DmaNest::derive(ends.0, ends.1).expect("a legal copy");
    let source = vec![1_u8; 128];
    let mut target = vec![0_u8; 128];
    let memcpy = || {
        let source = vec![1_u8; 128];
        let mut target = vec![0_u8; 128];
        move || {
            for _ in 0..REPEATS {
                let bytes = black_box(128);
                black_box(&mut target)[..bytes].copy_from_slice(&black_box(&source)[..bytes]);
            }
        }
    };
    let one_stick = move || {
        for _ in 0..REPEATS {
            let ends = (black_box(&source), black_box(&mut target));
            nest.copy(ends.0, ends.1, &spyre_layout::Solo).expect("a legal copy");
        }
    };
    let matrix = whole();
    let layout = tiled(IeeeFp16);
    let derive = move || {
        for _ in 0..REPEATS {
            let source = Endpoint::host(black_box(&matrix), IeeeFp16);
            let target = Endpoint::device(black_box(&matrix), black_box(&layout));
            black_box(DmaNest::derive(source, target)).expect("a legal copy");
        }
    };
    let peer = "memcpy of 128 bytes";
    vec![
        Benchmark::new(
            "64 elements, nest at hand, x20000",
            Bar::AtMost(12.0),
            one_stick,
            peer,
            memcpy(),
        ),
        Benchmark::new("deriving a nest, x20000", Bar::AtMost(200.0), derive, peer, memcpy()),
    ]
}

fn whole() -> View {
    View::contiguous(&[SIDE, SIDE]).expect("a view")
}

fn sliced() -> View {
    View::new(&[SIDE, SIDE - 3], &[SIDE, 1], 3).expect("a view")
}

fn tiled(format: DataFormat) -> SpyreTensorLayout {
    SpyreTensorLayout::contiguous(&[SIDE, SIDE], format).expect("a layout")
}

fn arrow(from: DataFormat, to: DataFormat) -> String {
    if from == to { from.name().to_owned() } else { format!("{} -> {}", from.name(), to.name()) }
}
