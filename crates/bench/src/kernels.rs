//! Programs on the software card, against the same loops written by hand.
#![allow(unsafe_code, reason = "calls loops that were compiled for a detected CPU feature")]

use std::hint::black_box;
use std::sync::Arc;

use spyre_artifact::{
    Access, Code, CodeImage, Dim, EntryImage, Lane, Operand, OperandWords, Program, ProgramBuilder,
};
use spyre_card::{SoftwareCard, Threads, handle_words};
use spyre_flex::{Context, FlexStream, Priority};
use spyre_hal::{DeviceHandle, DeviceRange, MemoryMode};
use spyre_layout::{Crew, SpyreTensorLayout};
use spyre_numerics::DataFormat::{self, IeeeFp16, IeeeFp32};
use spyre_numerics::{Converter, Tier};

use crate::{Bar, Benchmark};

/// Numbers of a sum: larger than caches.
const NUMBERS: usize = 8 << 20;
/// Numbers that a hand-written loop works on at a time.
const BLOCK: usize = 4096;

/// Sums and products of both formats, with the threads of `crew` on both sides: those whose names
/// hold `filter`.
///
/// # Panics
/// If the card cannot be opened.
pub fn all<'a>(crew: &'a dyn Crew, filter: &str) -> Vec<Benchmark<'a>> {
    type Make<'a> = fn(String, DataFormat, &'a dyn Crew) -> Benchmark<'a>;
    let kernels: [(&str, DataFormat, Make<'a>); 6] = [
        ("sum of 8 M float32", IeeeFp32, sum),
        ("sum of 8 M float16", IeeeFp16, sum),
        ("product of 512 cubed float32", IeeeFp32, product::<512>),
        ("product of 512 cubed float16", IeeeFp16, product::<512>),
        ("product of 1024 cubed float32", IeeeFp32, product::<1024>),
        ("sum of 64 float32, launched and waited for", IeeeFp32, small_sum),
    ];
    let threads = crew.threads();
    let named = kernels.map(|(name, format, make)| {
        let plural = if threads > 1 { "s" } else { "" };
        (format!("{name}, {threads} thread{plural}"), format, make)
    });
    let wanted = named.into_iter().filter(|(name, ..)| name.contains(filter));
    wanted.map(|(name, format, make)| make(name, format, crew)).collect()
}

fn sum(name: String, format: DataFormat, crew: &dyn Crew) -> Benchmark<'_> {
    let kernel = Kernel::new(crew.threads(), &sum_program(format), &[NUMBERS], format);
    let width = format.element_bytes().expect("whole bytes");
    // Not zeros: those would be one page of the system's, again and again.
    let [a, b, mut c] = [(); 3].map(|()| vec![1_u8; NUMBERS * width]);
    let peer = move || plain_sum(black_box(&a), black_box(&b), black_box(&mut c), format, crew);
    Benchmark::new(name, Bar::AtLeast(0.5), move || kernel.run(), "a plain loop", peer)
}

fn small_sum(name: String, format: DataFormat, crew: &dyn Crew) -> Benchmark<'_> {
    let kernel = Kernel::new(crew.threads(), &sum_program(format), &[64], format);
    let ours = move || (0..1000).for_each(|_| kernel.run());
    let idle =
        Kernel::new(crew.threads(), &ProgramBuilder::new().build().expect("none"), &[], format);
    let peer = move || (0..1000).for_each(|_| idle.run());
    Benchmark::new(name, Bar::AtMost(3.0), ours, "a program that does nothing", peer)
}

/// Matrix product of `SIDE` rows, columns and terms.
fn product<const SIDE: usize>(name: String, format: DataFormat, crew: &dyn Crew) -> Benchmark<'_> {
    let kernel = Kernel::new(crew.threads(), &product_program(format), &[SIDE; 3], format);
    let [a, b] = [(); 2].map(|()| vec![1.0_f32; SIDE * SIDE]);
    let mut c = vec![0.0_f32; SIDE * SIDE];
    let peer = move || {
        let rows: Vec<parking_lot::Mutex<&mut [f32]>> =
            c.chunks_mut(64 * SIDE).map(parking_lot::Mutex::new).collect();
        crew.run(rows.len(), &|at| {
            let a = &a[at * 64 * SIDE..][..64 * SIDE];
            plain_product::<SIDE>(black_box(a), black_box(&b), black_box(&mut rows[at].lock()));
        });
    };
    Benchmark::new(name, Bar::AtLeast(1.0), move || kernel.run(), "a blocked loop of float32", peer)
}

fn sum_program(format: DataFormat) -> Program {
    let mut code = ProgramBuilder::new();
    let i = code.dim();
    let [a, b] = [(); 2].map(|()| code.operand(format, Access::Read, [i]));
    let c = code.operand(format, Access::Write, [i]);
    code.each_parallel(i, 4096, |code| {
        let left = code.load(a);
        let right = code.load(b);
        let sum = code.add(left, right);
        code.store(c, sum);
    });
    code.build().expect("it follows the rules")
}

fn product_program(format: DataFormat) -> Program {
    let mut code = ProgramBuilder::new();
    let m = code.dim();
    let n = code.dim();
    let k = code.dim();
    let a = code.operand(format, Access::Read, [m, k]);
    let b = code.operand(format, Access::Read, [k, n]);
    let c = code.operand(format, Access::Write, [m, n]);
    code.each_parallel(m, 256, |code| {
        code.each_parallel(n, 256, |code| {
            let sum = code.constant(Lane::F32, [m, n], 0.0);
            code.each(k, 256, |code| code.dot(sum, a, b, k));
            code.store(c, sum);
        });
    });
    code.build().expect("it follows the rules")
}

/// A program that is loaded, with tensors of zeros.
struct Kernel {
    stream: FlexStream,
    instance: DeviceHandle,
}

impl Kernel {
    /// Three operands of one size each, or those of a product for three extents.
    fn new(threads: usize, program: &Program, extents: &[usize], format: DataFormat) -> Self {
        let card = SoftwareCard::new(MemoryMode::Vf).with_threads(Threads::new(threads));
        let context = Context::open(Arc::new(card)).expect("a card");
        let stream = context.stream(Priority::Low).expect("a stream");
        let load = |bytes: Vec<u8>| {
            let handle = stream.allocate_program(bytes.len() as u64).expect("memory");
            let target = DeviceRange::start_of(handle, bytes.len() as u64);
            stream.copy_to_device(bytes, target).expect("a legal copy");
            handle
        };
        let image = CodeImage::new(Code::Compute(program.clone()), Vec::new()).expect("small");
        let code = load(image.encode());
        let shape = program.table_shape();
        let mut entry = EntryImage::new(handle_words(code), shape, 0).expect("small");
        for (at, operand) in program.operands().iter().enumerate() {
            let dims: Vec<usize> = operand.span.dims().map(|dim| usize::from(dim.0)).collect();
            let size: Vec<usize> = dims.iter().map(|&dim| extents[dim]).collect();
            // The right matrix of a product has its terms first.
            let is_transposed = extents.len() == 3 && at == 1;
            let order: Vec<usize> =
                if is_transposed { vec![1, 0] } else { (0..dims.len()).collect() };
            let host: Vec<usize> = order.iter().map(|&at| size[at]).collect();
            let layout = SpyreTensorLayout::contiguous(&host, format).expect("a layout");
            let bytes = layout.device_bytes() as u64;
            let handle = stream.allocate(bytes).expect("memory");
            stream.fill(DeviceRange::start_of(handle, bytes), 0).expect("live memory");
            let words = OperandWords::of_layout(handle_words(handle), bytes, &layout);
            let mut words = words.expect("small");
            let mut stride = 1;
            for &at in order.iter().rev() {
                words.strides[at] = stride;
                stride *= size[at] as i64;
            }
            let place = shape.operand_words(Operand(at as u8));
            entry.table_mut()[place].copy_from_slice(&words.encode());
        }
        for (at, &extent) in extents.iter().enumerate() {
            entry.table_mut()[shape.extent_word(Dim(at as u8))] = extent as u64;
        }
        let instance = load(entry.encode());
        let kernel = Self { stream, instance };
        kernel.run();
        kernel
    }

    fn run(&self) {
        self.stream.launch(self.instance).expect("a live program");
        self.stream.synchronize().expect("no fault");
    }
}

fn plain_sum(a: &[u8], b: &[u8], c: &mut [u8], format: DataFormat, crew: &dyn Crew) {
    let bytes = BLOCK * format.element_bytes().expect("whole bytes");
    let parts = crew.threads();
    let part = (c.len() / parts).next_multiple_of(bytes);
    let targets: Vec<parking_lot::Mutex<&mut [u8]>> =
        c.chunks_mut(part).map(parking_lot::Mutex::new).collect();
    let widen = Converter::new(format, IeeeFp32).expect("floats");
    let narrow = Converter::new(IeeeFp32, format).expect("floats");
    crew.run(targets.len(), &|nth| {
        let mut floats = [(); 2].map(|()| vec![0_u8; BLOCK * 4]);
        let mut target = targets[nth].lock();
        let a = &a[nth * part..];
        let b = &b[nth * part..];
        for ((a, b), c) in a.chunks(bytes).zip(b.chunks(bytes)).zip(target.chunks_mut(bytes)) {
            if format == IeeeFp32 {
                add_into(a, b, c);
                continue;
            }
            let [left, right] = &mut floats;
            widen.convert(a, left).expect("as long");
            widen.convert(b, right).expect("as long");
            let (sums, _) = left.as_chunks_mut::<4>();
            for (left, right) in sums.iter_mut().zip(right.as_chunks::<4>().0) {
                *left = (f32::from_le_bytes(*left) + f32::from_le_bytes(*right)).to_le_bytes();
            }
            narrow.convert(left, c).expect("as long");
        }
    });
}

fn add_into(a: &[u8], b: &[u8], c: &mut [u8]) {
    let pairs = a.as_chunks::<4>().0.iter().zip(b.as_chunks::<4>().0);
    for ((a, b), c) in pairs.zip(c.as_chunks_mut::<4>().0) {
        *c = (f32::from_le_bytes(*a) + f32::from_le_bytes(*b)).to_le_bytes();
    }
}

/// Rows of `a` times all of `b`, in blocks of 64 terms that stay in the cache.
fn plain_product<const SIDE: usize>(a: &[f32], b: &[f32], c: &mut [f32]) {
    match Tier::detected() {
        // SAFETY: the CPU has the instructions.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 => unsafe { product_avx512::<SIDE>(a, b, c) },
        // SAFETY: the CPU has the instructions.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => unsafe { product_avx2::<SIDE>(a, b, c) },
        _ => product_loop::<SIDE>(a, b, c),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,fma")]
unsafe fn product_avx512<const SIDE: usize>(a: &[f32], b: &[f32], c: &mut [f32]) {
    product_loop::<SIDE>(a, b, c);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn product_avx2<const SIDE: usize>(a: &[f32], b: &[f32], c: &mut [f32]) {
    product_loop::<SIDE>(a, b, c);
}

#[inline(always)]
fn product_loop<const SIDE: usize>(a: &[f32], b: &[f32], c: &mut [f32]) {
    c.fill(0.0);
    for first in (0..SIDE).step_by(64) {
        for (a, c) in a.chunks_exact(SIDE).zip(c.chunks_exact_mut(SIDE)) {
            for k in first..first + 64 {
                let a = a[k];
                let b = &b[k * SIDE..][..SIDE];
                c.iter_mut().zip(b).for_each(|(c, &b)| *c = a.mul_add(b, *c));
            }
        }
    }
}
