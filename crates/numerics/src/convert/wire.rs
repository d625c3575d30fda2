//! Machine words as they lie in memory, at any alignment.
#![allow(unsafe_code, reason = "stores past the cache")]

use crate::Tier;
use crate::tier::LINE;

/// A word of a fixed number of bytes.
pub(super) trait Wire: Copy {
    /// Its bytes.
    type Bytes: Copy;
    /// No bytes set.
    const ZERO: Self::Bytes;

    fn load(bytes: Self::Bytes) -> Self;
    fn store(self) -> Self::Bytes;
    fn lanes(bytes: &[u8]) -> &[Self::Bytes];
    fn lanes_mut(bytes: &mut [u8]) -> &mut [Self::Bytes];
}

macro_rules! wire {
    ($($word:ty)*) => { $(
        impl Wire for $word {
            type Bytes = [u8; size_of::<$word>()];
            const ZERO: Self::Bytes = [0; size_of::<$word>()];

            #[inline(always)]
            fn load(bytes: Self::Bytes) -> Self {
                Self::from_le_bytes(bytes)
            }

            #[inline(always)]
            fn store(self) -> Self::Bytes {
                self.to_le_bytes()
            }

            #[inline(always)]
            fn lanes(bytes: &[u8]) -> &[Self::Bytes] {
                bytes.as_chunks().0
            }

            #[inline(always)]
            fn lanes_mut(bytes: &mut [u8]) -> &mut [Self::Bytes] {
                bytes.as_chunks_mut().0
            }
        }
    )* };
}

wire!(u8 u16 u32 u64 i8 i16 i32 i64 f32 f64);

/// Elements that are carried together: a count that the compiler knows unrolls into few vectors,
/// and fills whole cache lines in every format.
pub(super) const BLOCK: usize = 64;

/// Applies `f` to each element of `source`, in step with `target`.
#[inline(always)]
pub(super) fn map<S: Wire, T: Wire, const TIER: u8, const STREAM: bool>(
    source: &[u8],
    target: &mut [u8],
    f: impl Fn(S) -> T,
) {
    let (blocks, rest) = S::lanes(source).as_chunks::<BLOCK>();
    let (results, last) = T::lanes_mut(target).as_chunks_mut::<BLOCK>();
    for (from, to) in blocks.iter().zip(results) {
        map_block::<S, T, TIER, STREAM>(from, to, &f);
    }
    for (from, to) in rest.iter().zip(last) {
        *to = f(S::load(*from)).store();
    }
}

/// Applies `f` to each element of one block.
#[inline(always)]
pub(super) fn map_block<S: Wire, T: Wire, const TIER: u8, const STREAM: bool>(
    source: &[S::Bytes; BLOCK],
    target: &mut [T::Bytes; BLOCK],
    f: impl Fn(S) -> T,
) {
    let mut block = [T::ZERO; BLOCK];
    for at in 0..BLOCK {
        block[at] = f(S::load(source[at])).store();
    }
    put::<_, TIER, STREAM>(target, &block);
}

/// Stores a whole number of cache lines, past the cache if `STREAM` says so.
#[inline(always)]
pub(super) fn put<B: Copy, const TIER: u8, const STREAM: bool>(target: &mut B, block: &B) {
    #[cfg(target_arch = "x86_64")]
    if STREAM {
        debug_assert!((&raw const *target as usize | size_of::<B>()).is_multiple_of(LINE));
        let from = (&raw const *block).cast::<u8>();
        let to = (&raw mut *target).cast::<u8>();
        for at in (0..size_of::<B>()).step_by(LINE) {
            // SAFETY: both are as long; who asks for streaming has aligned the target.
            unsafe { stream_line::<TIER>(from.add(at), to.add(at)) };
        }
        return;
    }
    *target = *block;
}

/// # Safety
/// The CPU has the tier, both ends hold a line, and the target is aligned to it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn stream_line<const TIER: u8>(from: *const u8, to: *mut u8) {
    use std::arch::x86_64::*;

    // SAFETY: as the caller promises.
    unsafe {
        if TIER == Tier::Avx512 as u8 {
            _mm512_stream_si512(to.cast(), _mm512_loadu_si512(from.cast()));
        } else {
            for at in (0..LINE).step_by(16) {
                _mm_stream_si128(to.add(at).cast(), _mm_loadu_si128(from.add(at).cast()));
            }
        }
    }
}
