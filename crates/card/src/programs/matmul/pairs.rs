//! The right side of a product in tiles: pairs of neighbours along k, side by side for each column.
#![allow(unsafe_code, reason = "vector instructions on pointers")]

#[cfg(target_arch = "x86_64")]
use crate::programs::execute::transpose::transpose_square;
use crate::programs::matmul::amx::{STEP_BYTES, TERMS};
use crate::programs::matmul::product::PANEL;

/// A right side of bfloat16, in sticks of 64 numbers or like them.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct RightSide {
    pub(in crate::programs) first: *const u8,
    /// Bytes from a stick to the next one along it, and from a row of them to the next one.
    pub(in crate::programs) strides: [usize; 2],
    /// True if sticks lie along k, and rows are columns of the matrix.
    pub(in crate::programs) is_transposed: bool,
    pub(in crate::programs) k: usize,
    pub(in crate::programs) columns: usize,
}

/// A row of nothing, for what lies past the end.
static NOTHING: [u8; 128] = [0; 128];

/// Packs all panels, each with its steps one behind the other.
///
/// # Safety
/// The CPU has AVX-512. The source is where it says, in whole sticks, and the target has room.
pub(in crate::programs) unsafe fn pack(source: RightSide, target: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as the caller promises.
    unsafe {
        pack_panels(source, target);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (source, target);
}

/// # Safety
/// As [`pack`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn pack_panels(source: RightSide, target: *mut u8) {
    let steps = source.k.div_ceil(TERMS);
    for panel in 0..source.columns.div_ceil(PANEL) {
        for step in 0..steps {
            // SAFETY: as the caller promises.
            unsafe {
                let target = target.add((panel * steps + step) * STEP_BYTES);
                if source.is_transposed {
                    x86::transposed_step(source, panel, step, target);
                } else {
                    x86::step(source, panel, step, target);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m512i, _mm512_loadu_si512, _mm512_permutexvar_epi64, _mm512_setr_epi64,
        _mm512_storeu_si512, _mm512_unpackhi_epi16, _mm512_unpacklo_epi16,
    };

    use super::{NOTHING, PANEL, RightSide, TERMS, transpose_square};

    /// Bytes of a tile.
    const TILE: usize = 1024;
    /// Numbers in the side of a tile.
    const SIDE: usize = 16;

    /// # Safety
    /// As `pack`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) unsafe fn step(source: RightSide, panel: usize, step: usize, target: *mut u8) {
        let [stick, row] = source.strides;
        let column = panel / 2 * stick + panel % 2 * (PANEL * 2);
        // Halves of quarters are swapped, so that what is unpacked is in order.
        let order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
        for pair in 0..TERMS / 2 {
            // SAFETY: rows that are there, or nothing; the target has room for a step.
            unsafe {
                let [even, odd] = [0, 1].map(|nth| {
                    let term = step * TERMS + pair * 2 + nth;
                    let is_there = term < source.k;
                    let from = source.first.wrapping_add(column + term * row);
                    if is_there { from } else { NOTHING.as_ptr() }
                });
                let even = _mm512_permutexvar_epi64(order, loaded(even));
                let odd = _mm512_permutexvar_epi64(order, loaded(odd));
                let target = target.add(pair / SIDE * (2 * TILE) + pair % SIDE * 64);
                let [low, high] = [target, target.add(TILE)];
                _mm512_storeu_si512(low.cast(), _mm512_unpacklo_epi16(even, odd));
                _mm512_storeu_si512(high.cast(), _mm512_unpackhi_epi16(even, odd));
            }
        }
    }

    /// # Safety
    /// As `pack`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) unsafe fn transposed_step(
        source: RightSide,
        panel: usize,
        step: usize,
        target: *mut u8,
    ) {
        let [stick, row] = source.strides;
        for tile in 0..4 {
            let first = panel * PANEL + tile % 2 * SIDE;
            let half = tile / 2 * 64;
            let rows = std::array::from_fn(|nth| {
                let from = source.first.wrapping_add((first + nth) * row + step * stick + half);
                let is_there = first + nth < source.columns;
                if is_there { from.cast() } else { NOTHING.as_ptr().cast() }
            });
            // SAFETY: rows that are there, or nothing; the target has room for a step.
            unsafe { transpose_square(rows, target.add(tile * TILE).cast(), SIDE) };
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn loaded(from: *const u8) -> __m512i {
        // SAFETY: 64 bytes, as the caller promises.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }
}
