//! Routes from one format to another.
//!
//! Every format has a hub: f32 for small floats, a 64-bit integer for integers. A handful of steps
//! between hubs joins all of them, so each format needs two loops and no pair needs its own; pairs
//! that models move all day have one all the same.
#![allow(unsafe_code, reason = "hands rows to kernels by address")]

use super::codec::{ArrivingSen, Brain, Codec, Half, OrderedSen, Sen, Single};
use super::direct::{HalfToSen, SenByHalf, SenToHalf};
use super::half_lanes::{HalfToSingle, SingleToHalf};
use super::integer::{Bool, Integer};
use super::kernels::{
    BoolToSen, Cast, ComplexToBool, Complexify, Float, RealPart, Recode, Resize, Saturate,
    SenToBool, SingleToBool, Trunc, Widen, Wrap,
};
use super::{Overflow, Specials};
use crate::tier::{Compiled, Kernel, Rows};
use crate::{DataFormat, Float8, Tier};

/// Elements that a chain carries at a time, between two buffers that stay in L1.
const BLOCK: usize = 64;
const WIDEST: usize = 16;
type Buffers = [[u8; BLOCK * WIDEST]; 2];

const MAX_STEPS: usize = 5;

/// Steps that carry elements from one format to another.
#[derive(Clone, Copy)]
pub(super) enum Route {
    /// Their bytes are the same.
    Copy,
    /// One loop does it.
    Direct(Compiled),
    /// Several loops, a block at a time.
    Chain(Chain),
}

/// Steps that are taken one after another.
#[derive(Clone, Copy)]
pub(super) struct Chain {
    steps: [Option<Step>; MAX_STEPS],
    source_bytes: usize,
    target_bytes: usize,
}

#[derive(Clone, Copy)]
struct Step {
    kernel: Compiled,
    /// Bytes of an element after this step.
    bytes: usize,
}

impl Step {
    fn run(&self, source: &[u8], target: &mut [u8], elements: usize) {
        debug_assert!(target.len() >= elements * self.bytes);
        // SAFETY: both slices hold the elements.
        unsafe { self.kernel.run(source.as_ptr(), target.as_mut_ptr(), Rows::one(elements)) }
    }
}

impl Route {
    /// The route between two addressable formats.
    pub(super) fn between(
        from: DataFormat,
        to: DataFormat,
        tier: Tier,
        overflow: Overflow,
        specials: Specials,
    ) -> Self {
        if same_bytes(from, to) {
            return Self::Copy;
        }
        if let (Some(from), Some(to)) = (part(from), part(to)) {
            return Self::between(from, to, tier, overflow, specials);
        }
        let clamp = saturation(to, tier, overflow);
        let step = |from, to| direct(from, to, tier, specials);
        match step(from, to) {
            Some(kernel) if clamp.is_none() => Self::Direct(kernel),
            _ => Self::Chain(Chain::along(from, to, step, clamp)),
        }
    }

    /// Converts rows whose elements have `bytes` at each end.
    ///
    /// # Safety
    /// Both ends hold the rows.
    #[inline]
    pub(super) unsafe fn run(
        &self,
        source: *const u8,
        target: *mut u8,
        bytes: (usize, usize),
        rows: Rows,
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            match self {
                Self::Direct(kernel) => kernel.run(source, target, rows),
                Self::Copy => rows.each(source, target, bytes, |row, to| to.copy_from_slice(row)),
                Self::Chain(chain) => {
                    let mut buffers = [[0; BLOCK * WIDEST]; 2];
                    rows.each(source, target, bytes, |row, to| chain.run(row, to, &mut buffers));
                }
            }
        }
    }

    /// Returns true if [`Route::stream`] stores past the cache.
    #[inline]
    pub(super) fn streams(&self) -> bool {
        matches!(self, Self::Direct(kernel) if kernel.streams())
    }

    /// Converts rows with stores past the cache.
    ///
    /// # Safety
    /// Both ends hold the rows, the route streams, and the target is aligned.
    #[inline]
    pub(super) unsafe fn stream(&self, source: *const u8, target: *mut u8, rows: Rows) {
        if let Self::Direct(kernel) = self {
            // SAFETY: as the caller promises.
            unsafe { kernel.stream(source, target, rows) }
        }
    }
}

impl Chain {
    fn along(
        from: DataFormat,
        to: DataFormat,
        step: impl Fn(DataFormat, DataFormat) -> Option<Compiled>,
        clamp: Option<Compiled>,
    ) -> Self {
        let mut steps = [None; MAX_STEPS];
        let mut free = steps.iter_mut();
        let width = |stop: DataFormat| stop.element_bytes().expect("stops are addressable");
        let mut push = |kernel, stop| {
            let step = Step { kernel, bytes: width(stop) };
            *free.next().expect("no route is longer") = Some(step);
        };
        let mut here = from;
        for stop in stops(from, to).into_iter().flatten().chain([to]) {
            if stop != here {
                let kernel = step(here, stop).expect("neighbouring stops have a kernel");
                push(kernel, stop);
            }
            here = stop;
            if let (Some(clamp), DataFormat::IeeeFp32) = (clamp, here) {
                push(clamp, here);
            }
        }
        Self { steps, source_bytes: width(from), target_bytes: width(to) }
    }

    /// Converts a row, a block at a time, by way of two buffers.
    fn run(&self, source: &[u8], target: &mut [u8], buffers: &mut Buffers) {
        let blocks = source.chunks(BLOCK * self.source_bytes);
        for (source, target) in blocks.zip(target.chunks_mut(BLOCK * self.target_bytes)) {
            self.run_block(source, target, buffers);
        }
    }

    fn run_block(&self, source: &[u8], target: &mut [u8], buffers: &mut Buffers) {
        let elements = source.len() / self.source_bytes;
        let [mut near, mut far] = buffers.each_mut();
        let mut steps = self.steps.iter().flatten().peekable();
        let mut width = source.len();
        let mut is_first = true;
        while let Some(step) = steps.next() {
            let input = if is_first { source } else { &near[..width] };
            width = elements * step.bytes;
            if steps.peek().is_none() {
                step.run(input, target, elements);
            } else {
                step.run(input, &mut far[..width], elements);
                std::mem::swap(&mut near, &mut far);
            }
            is_first = false;
        }
    }
}

fn same_bytes(from: DataFormat, to: DataFormat) -> bool {
    use DataFormat::{IeeeInt32, IeeeInt64, SenInt8, SenInt16, SenUInt32, UInt8, UInt16, UInt64};
    let signed = |format| match format {
        UInt8 => SenInt8,
        UInt16 => SenInt16,
        SenUInt32 => IeeeInt32,
        UInt64 => IeeeInt64,
        other => other,
    };
    // A bool's bytes are made zero or one even on the way to another bool.
    from != DataFormat::Bool && signed(from) == signed(to)
}

/// Numbers that a route converts per element.
pub(super) fn parts(from: DataFormat, to: DataFormat) -> usize {
    if part(from).is_some() && part(to).is_some() { 2 } else { 1 }
}

/// The format of a complex number's parts.
fn part(format: DataFormat) -> Option<DataFormat> {
    match format {
        DataFormat::Complex32 => Some(DataFormat::IeeeFp16),
        DataFormat::Complex64 => Some(DataFormat::IeeeFp32),
        DataFormat::Complex128 => Some(DataFormat::IeeeFp64),
        _ => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Float,
    Double,
    Integer,
    Bool,
}

fn class(format: DataFormat) -> Class {
    use DataFormat::{IeeeFp64, IeeeInt32, IeeeInt64, SenInt8, SenInt16};
    use DataFormat::{SenUInt32, UInt8, UInt16, UInt64};
    match format {
        IeeeFp64 => Class::Double,
        DataFormat::Bool => Class::Bool,
        SenInt8 | SenInt16 | IeeeInt32 | IeeeInt64 | UInt8 | UInt16 | SenUInt32 | UInt64 => {
            Class::Integer
        }
        _ => Class::Float,
    }
}

fn bytes(format: DataFormat) -> usize {
    format.element_bytes().unwrap_or(0)
}

/// The hubs between two formats, in order.
fn stops(from: DataFormat, to: DataFormat) -> [Option<DataFormat>; 4] {
    use Class::{Bool, Double, Float, Integer};
    use DataFormat::{IeeeFp32, IeeeFp64, IeeeInt64, UInt64};

    let (enter, source) = match part(from) {
        Some(_) if to == DataFormat::Bool => return [None; 4],
        Some(part) => (Some(part), part),
        None => (None, from),
    };
    let (leave, target) = match part(to) {
        Some(part) => (Some(part), part),
        None => (None, to),
    };
    let whole = if source == UInt64 { UInt64 } else { IeeeInt64 };
    let (first, second) = match (class(source), class(target)) {
        (Float, Integer) => (Some(IeeeFp32), Some(IeeeFp64)),
        (Float | Double, Float) | (Float, Double | Bool) => (Some(IeeeFp32), None),
        (Double, _) => (None, None),
        // Small ones are held by f32, which they reach in one step.
        (Integer, Float) if bytes(source) <= 2 => (Some(IeeeFp32), None),
        (Integer | Bool, Float) => (Some(whole), Some(IeeeFp32)),
        (Integer | Bool, Integer | Bool | Double) => (Some(whole), None),
    };
    [enter, first, second, leave]
}

fn saturation(to: DataFormat, tier: Tier, overflow: Overflow) -> Option<Compiled> {
    if overflow == Overflow::Special {
        return None;
    }
    let to = part(to).unwrap_or(to);
    Some(match to {
        DataFormat::Sen169Fp16 => tier.compile::<Saturate<Sen>>(),
        DataFormat::IeeeFp16 => tier.compile::<Saturate<Half>>(),
        DataFormat::BFloat16 => tier.compile::<Saturate<Brain>>(),
        DataFormat::IeeeFp32 => tier.compile::<Saturate<Single>>(),
        DataFormat::Sen143Fp8 => tier.compile::<Saturate<Float8<0>>>(),
        DataFormat::Fp8E4M3FnUz => tier.compile::<Saturate<Float8<1>>>(),
        DataFormat::Fp8E5M2 => tier.compile::<Saturate<Float8<2>>>(),
        DataFormat::Sen152Fp8 => tier.compile::<Saturate<Float8<3>>>(),
        DataFormat::Fp8E8M0FnU => tier.compile::<Saturate<Float8<4>>>(),
        _ => return None,
    })
}

/// The single loop between two formats, if there is one.
fn direct(from: DataFormat, to: DataFormat, tier: Tier, specials: Specials) -> Option<Compiled> {
    let of_sen = match specials {
        Specials::Published => between_floats_and_sen::<Sen>(from, to, tier),
        Specials::Arriving => between_floats_and_sen::<ArrivingSen>(from, to, tier),
        Specials::Ordered => between_floats_and_sen::<OrderedSen>(from, to, tier),
    };
    of_sen.or_else(|| whatever_the_specials(from, to, tier))
}

/// The loops whose results depend on what becomes of SEN169's special.
fn between_floats_and_sen<S: SenByHalf>(
    from: DataFormat,
    to: DataFormat,
    tier: Tier,
) -> Option<Compiled> {
    use DataFormat::{BFloat16, IeeeFp16, IeeeFp32, Sen169Fp16};
    Some(match (from, to) {
        (IeeeFp16, Sen169Fp16) => tier.compile_streaming::<HalfToSen<S>>(),
        (Sen169Fp16, IeeeFp16) => tier.compile_streaming::<SenToHalf<S>>(),
        (BFloat16, Sen169Fp16) => tier.compile_streaming::<Recode<Brain, S>>(),
        (Sen169Fp16, BFloat16) => tier.compile_streaming::<Recode<S, Brain>>(),
        (IeeeFp32, Sen169Fp16) => tier.compile_streaming::<Recode<Single, S>>(),
        (Sen169Fp16, IeeeFp32) => tier.compile_streaming::<Recode<S, Single>>(),
        _ => return None,
    })
}

fn whatever_the_specials(from: DataFormat, to: DataFormat, tier: Tier) -> Option<Compiled> {
    Some(match (from, to) {
        (DataFormat::IeeeFp16, DataFormat::IeeeFp32) => tier.compile_streaming::<HalfToSingle>(),
        (DataFormat::IeeeFp32, DataFormat::IeeeFp16) => tier.compile_streaming::<SingleToHalf>(),
        (DataFormat::IeeeFp16, DataFormat::BFloat16) => {
            tier.compile_streaming::<Recode<Half, Brain>>()
        }
        (DataFormat::BFloat16, DataFormat::IeeeFp16) => {
            tier.compile_streaming::<Recode<Brain, Half>>()
        }
        (DataFormat::IeeeFp32, DataFormat::IeeeFp64) => tier.compile::<Cast<f32, f64>>(),
        (DataFormat::IeeeFp64, DataFormat::IeeeFp32) => tier.compile::<Cast<f64, f32>>(),
        (DataFormat::IeeeInt64, DataFormat::IeeeFp32) => tier.compile::<Cast<i64, f32>>(),
        (DataFormat::IeeeInt64, DataFormat::IeeeFp64) => tier.compile::<Cast<i64, f64>>(),
        (DataFormat::UInt64, DataFormat::IeeeFp32) => tier.compile::<Cast<u64, f32>>(),
        (DataFormat::UInt64, DataFormat::IeeeFp64) => tier.compile::<Cast<u64, f64>>(),
        (DataFormat::SenInt8, DataFormat::IeeeFp32) => tier.compile::<Float<i8, f32>>(),
        (DataFormat::UInt8, DataFormat::IeeeFp32) => tier.compile::<Float<u8, f32>>(),
        (DataFormat::SenInt16, DataFormat::IeeeFp32) => tier.compile::<Float<i16, f32>>(),
        (DataFormat::UInt16, DataFormat::IeeeFp32) => tier.compile::<Float<u16, f32>>(),
        (DataFormat::SenInt8, DataFormat::IeeeFp64) => tier.compile::<Float<i8, f64>>(),
        (DataFormat::UInt8, DataFormat::IeeeFp64) => tier.compile::<Float<u8, f64>>(),
        (DataFormat::SenInt16, DataFormat::IeeeFp64) => tier.compile::<Float<i16, f64>>(),
        (DataFormat::UInt16, DataFormat::IeeeFp64) => tier.compile::<Float<u16, f64>>(),
        (DataFormat::IeeeInt32, DataFormat::IeeeFp64) => tier.compile::<Float<i32, f64>>(),
        (DataFormat::IeeeFp32, DataFormat::Bool) => tier.compile::<SingleToBool>(),
        (DataFormat::Complex32, DataFormat::Bool) => tier.compile::<ComplexToBool<u16>>(),
        (DataFormat::Complex64, DataFormat::Bool) => tier.compile::<ComplexToBool<u32>>(),
        (DataFormat::Complex128, DataFormat::Bool) => tier.compile::<ComplexToBool<u64>>(),
        (DataFormat::Complex32, DataFormat::IeeeFp16) => tier.compile::<RealPart<u16>>(),
        (DataFormat::Complex64, DataFormat::IeeeFp32) => tier.compile::<RealPart<u32>>(),
        (DataFormat::Complex128, DataFormat::IeeeFp64) => tier.compile::<RealPart<u64>>(),
        (DataFormat::IeeeFp16, DataFormat::Complex32) => tier.compile::<Complexify<u16>>(),
        (DataFormat::IeeeFp32, DataFormat::Complex64) => tier.compile::<Complexify<u32>>(),
        (DataFormat::IeeeFp64, DataFormat::Complex128) => tier.compile::<Complexify<u64>>(),
        (DataFormat::Bool, DataFormat::Bool) => tier.compile::<Resize<Bool, Bool>>(),
        (DataFormat::UInt8, DataFormat::SenUInt32) => tier.compile::<Resize<u8, u32>>(),
        (DataFormat::SenUInt32, DataFormat::UInt8) => tier.compile::<Resize<u32, u8>>(),
        (DataFormat::Bool, DataFormat::Sen169Fp16) => tier.compile_streaming::<BoolToSen>(),
        (DataFormat::Sen169Fp16, DataFormat::Bool) => tier.compile_streaming::<SenToBool>(),
        (from, DataFormat::IeeeFp32) => by_codec::<Decode>(from, tier)?,
        (DataFormat::IeeeFp32, to) => by_codec::<Encode>(to, tier)?,
        (from, DataFormat::IeeeInt64) if from != DataFormat::IeeeFp64 => {
            by_integer::<ToWidest>(from, tier)?
        }
        (DataFormat::IeeeInt64 | DataFormat::UInt64, to) => by_integer::<FromWidest>(to, tier)?,
        (DataFormat::IeeeFp64, to) => by_integer::<FromDouble>(to, tier)?,
        _ => return None,
    })
}

/// A kernel for each codec.
trait PerCodec {
    type Kernel<C: Codec>: Kernel;
}

struct Decode;
struct Encode;

impl PerCodec for Decode {
    type Kernel<C: Codec> = Recode<C, Single>;
}

impl PerCodec for Encode {
    type Kernel<C: Codec> = Recode<Single, C>;
}

fn by_codec<P: PerCodec>(format: DataFormat, tier: Tier) -> Option<Compiled> {
    Some(match format {
        DataFormat::BFloat16 => tier.compile_streaming::<P::Kernel<Brain>>(),
        DataFormat::Sen143Fp8 => tier.compile::<P::Kernel<Float8<0>>>(),
        DataFormat::Fp8E4M3FnUz => tier.compile::<P::Kernel<Float8<1>>>(),
        DataFormat::Fp8E5M2 => tier.compile::<P::Kernel<Float8<2>>>(),
        DataFormat::Sen152Fp8 => tier.compile::<P::Kernel<Float8<3>>>(),
        DataFormat::Fp8E8M0FnU => tier.compile::<P::Kernel<Float8<4>>>(),
        _ => return None,
    })
}

/// A kernel for each integer type.
trait PerInteger {
    type Kernel<I: Integer>: Kernel;
}

struct ToWidest;
struct FromWidest;
struct FromDouble;

impl PerInteger for ToWidest {
    type Kernel<I: Integer> = Widen<I>;
}

impl PerInteger for FromWidest {
    type Kernel<I: Integer> = Wrap<I>;
}

impl PerInteger for FromDouble {
    type Kernel<I: Integer> = Trunc<I>;
}

fn by_integer<P: PerInteger>(format: DataFormat, tier: Tier) -> Option<Compiled> {
    Some(match format {
        DataFormat::Bool => tier.compile::<P::Kernel<Bool>>(),
        DataFormat::SenInt8 => tier.compile::<P::Kernel<i8>>(),
        DataFormat::UInt8 => tier.compile::<P::Kernel<u8>>(),
        DataFormat::SenInt16 => tier.compile::<P::Kernel<i16>>(),
        DataFormat::UInt16 => tier.compile::<P::Kernel<u16>>(),
        DataFormat::IeeeInt32 => tier.compile::<P::Kernel<i32>>(),
        DataFormat::SenUInt32 => tier.compile::<P::Kernel<u32>>(),
        DataFormat::IeeeInt64 => tier.compile::<P::Kernel<i64>>(),
        DataFormat::UInt64 => tier.compile::<P::Kernel<u64>>(),
        _ => return None,
    })
}
