//! One loop per kind of step; the compiler vectorises each for every tier.

use std::marker::PhantomData;

use super::codec::Codec;
use super::integer::{Bool, Integer};
use super::wire::{Wire, map};
use crate::Sen169;
use crate::tier::Kernel;

/// Conversion of one small float to another, by way of f32.
pub(super) struct Recode<S, T>(PhantomData<(S, T)>);

impl<S: Codec, T: Codec> Kernel for Recode<S, T> {
    const BYTES: (usize, usize) = (size_of::<S::Word>(), size_of::<T::Word>());

    #[inline(always)]
    fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
        map::<_, _, TIER, STREAM>(source, target, |word: S::Word| T::encode(S::decode(word)));
    }
}

/// Clamp of f32 to the largest number of `C`.
pub(super) struct Saturate<C>(PhantomData<C>);

impl<C: Codec> Kernel for Saturate<C> {
    const BYTES: (usize, usize) = (4, 4);

    #[inline(always)]
    fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
        map::<_, _, TIER, STREAM>(source, target, |value: f32| value.clamp(-C::MAX, C::MAX));
    }
}

/// Conversion of an integer to a 64-bit integer.
pub(super) struct Widen<I>(PhantomData<I>);

impl<I: Integer> Kernel for Widen<I> {
    const BYTES: (usize, usize) = (size_of::<I>(), 8);

    #[inline(always)]
    fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
        map::<_, _, TIER, STREAM>(source, target, |value: I| value.to_i64());
    }
}

/// Conversion of an integer of at most 32 bits to a float that holds all of them.
pub(super) struct Float<I, F>(PhantomData<(I, F)>);

macro_rules! float {
    ($($float:ty)*) => { $(
        impl<I: Integer> Kernel for Float<I, $float> {
            const BYTES: (usize, usize) = (size_of::<I>(), size_of::<$float>());

            #[inline(always)]
            fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
                // The CPU converts as many 32-bit integers at a time as there are floats.
                let float = |value: I| value.to_i64() as i32 as $float;
                map::<_, _, TIER, STREAM>(source, target, float);
            }
        }
    )* };
}

float!(f32 f64);

/// Conversion of a 64-bit integer to an integer, wrapping.
pub(super) struct Wrap<I>(PhantomData<I>);

impl<I: Integer> Kernel for Wrap<I> {
    const BYTES: (usize, usize) = (8, size_of::<I>());

    #[inline(always)]
    fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
        map::<_, _, TIER, STREAM>(source, target, I::from_i64);
    }
}

/// Conversion of one integer to another, wrapping.
pub(super) struct Resize<I, J>(PhantomData<(I, J)>);

impl<I: Integer, J: Integer> Kernel for Resize<I, J> {
    const BYTES: (usize, usize) = (size_of::<I>(), size_of::<J>());

    #[inline(always)]
    fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
        map::<_, _, TIER, STREAM>(source, target, |value: I| J::from_i64(value.to_i64()));
    }
}

/// Conversion of bool to SEN169: zero or one.
pub(super) struct BoolToSen;

impl Kernel for BoolToSen {
    const BYTES: (usize, usize) = (1, 2);

    #[inline(always)]
    fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
        const ONE: u16 = Sen169::from_f32(1.0).to_bits();
        let code = |value: u8| if value == 0 { 0 } else { ONE };
        map::<u8, u16, TIER, STREAM>(source, target, code);
    }
}

/// Conversion of SEN169 to bool: true if it is other than zero, of either sign.
pub(super) struct SenToBool;

impl Kernel for SenToBool {
    const BYTES: (usize, usize) = (2, 1);

    #[inline(always)]
    fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
        map::<u16, u8, TIER, STREAM>(source, target, |word| (word & 0x7FFF != 0).into());
    }
}

/// Conversion of f64 to an integer, truncating.
pub(super) struct Trunc<I>(PhantomData<I>);

impl<I: Integer> Kernel for Trunc<I> {
    const BYTES: (usize, usize) = (8, size_of::<I>());

    #[inline(always)]
    fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
        map::<_, _, TIER, STREAM>(source, target, I::from_f64);
    }
}

/// Conversion of f32 to bool: true if it is other than zero, of either sign.
pub(super) struct SingleToBool;

impl Kernel for SingleToBool {
    const BYTES: (usize, usize) = (4, 1);

    #[inline(always)]
    fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
        map::<u32, Bool, TIER, STREAM>(source, target, |bits| {
            Bool::from_i64((bits & 0x7FFF_FFFF != 0).into())
        });
    }
}

/// A plain cast between machine numbers, rounded once to the target.
pub(super) struct Cast<S, T>(PhantomData<(S, T)>);

macro_rules! cast {
    ($($source:ty => $target:ty;)*) => { $(
        impl Kernel for Cast<$source, $target> {
            const BYTES: (usize, usize) = (size_of::<$source>(), size_of::<$target>());

            #[inline(always)]
            fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
                map::<_, _, TIER, STREAM>(source, target, |value: $source| value as $target);
            }
        }
    )* };
}

cast! {
    f32 => f64;
    f64 => f32;
    i64 => f32;
    i64 => f64;
    u64 => f32;
    u64 => f64;
}

/// The real parts of complex numbers whose parts are `W`.
pub(super) struct RealPart<W>(PhantomData<W>);

impl<W: Wire> Kernel for RealPart<W> {
    const BYTES: (usize, usize) = (2 * size_of::<W>(), size_of::<W>());

    #[inline(always)]
    fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
        for (pair, real) in W::lanes(source).chunks_exact(2).zip(W::lanes_mut(target)) {
            *real = pair[0];
        }
    }
}

/// Complex numbers whose real parts are given and whose imaginary parts are zero.
pub(super) struct Complexify<W>(PhantomData<W>);

impl<W: Wire + Default> Kernel for Complexify<W> {
    const BYTES: (usize, usize) = (size_of::<W>(), 2 * size_of::<W>());

    #[inline(always)]
    fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
        for (real, pair) in W::lanes(source).iter().zip(W::lanes_mut(target).chunks_exact_mut(2)) {
            pair[0] = *real;
            pair[1] = W::default().store();
        }
    }
}

/// Conversion of a complex number of two `W` parts to bool: true if it is other than zero.
pub(super) struct ComplexToBool<W>(PhantomData<W>);

macro_rules! complex_to_bool {
    ($($word:ty: $magnitude:expr;)*) => { $(
        impl Kernel for ComplexToBool<$word> {
            const BYTES: (usize, usize) = (2 * size_of::<$word>(), 1);

            #[inline(always)]
            fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]) {
                let pairs = <$word as Wire>::lanes(source).chunks_exact(2);
                for (pair, to) in pairs.zip(target) {
                    let parts = <$word as Wire>::load(pair[0]) | <$word as Wire>::load(pair[1]);
                    *to = (parts & $magnitude != 0).into();
                }
            }
        }
    )* };
}

complex_to_bool! {
    u16: 0x7FFF;
    u32: 0x7FFF_FFFF;
    u64: 0x7FFF_FFFF_FFFF_FFFF;
}
