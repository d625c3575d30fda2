use spyre_numerics::{Rows, STICK_BYTES, Tier};

use super::stream;

/// Number of float32 elements in a stick.
const FLOATS: usize = STICK_BYTES / size_of::<f32>();

/// Sticks in columns and rows, each at a stride of its own at both ends.
#[derive(Clone, Copy, Debug)]
pub struct StickGrid {
    /// Number of columns and of rows.
    pub counts: [usize; 2],
    /// Bytes from a column to the next one and from a row to the next one, at the source.
    pub source_strides: [usize; 2],
    /// Bytes from a column to the next one and from a row to the next one, at the target.
    pub target_strides: [usize; 2],
}

/// Copies sticks, column by column: without a call in between, so that the memory is asked for the
/// next ones while it still brings the last.
///
/// # Safety
/// Both ends hold the sticks, and do not overlap.
pub unsafe fn copy_stick_grid(source: *const u8, target: *mut u8, grid: StickGrid) {
    // SAFETY: as the caller promises; the tier was detected.
    unsafe {
        match Tier::detected() {
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 => copy_512(source, target, grid),
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 => copy_256(source, target, grid),
            _ => each_stick(source, target, grid, |from, to| copy_stick(from, to)),
        }
    }
}

/// Like [`copy_stick_grid`], with stores that leave no trace in the cache; a [`store_fence`] orders
/// them before what follows.
///
/// [`store_fence`]: crate::store_fence
///
/// # Safety
/// As [`copy_stick_grid`]; the target and its strides are multiples of 64.
pub unsafe fn copy_stick_grid_past_cache(source: *const u8, target: *mut u8, grid: StickGrid) {
    let strides = grid.target_strides;
    debug_assert!((target.addr() | strides[0] | strides[1]).is_multiple_of(stream::LINE));
    // SAFETY: as the caller promises; the tier was detected.
    unsafe {
        match Tier::detected() {
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 => stream_512(source, target, grid),
            tier => {
                let stick = Rows { count: 1, elements: 0, source_stride: 0, target_stride: 0 };
                each_stick(source, target, grid, |from, to| {
                    stream::copy_rows(tier, from, to, stick, STICK_BYTES);
                });
            }
        }
    }
}

/// Stores one stick past the cache, which is best where it has just been made and is still in registers: to
/// be inlined into code for the tier.
///
/// # Safety
/// The target is a multiple of 64 and holds a stick; the CPU has the instructions of `TIER`.
#[inline(always)]
pub unsafe fn store_stick_past_cache<const TIER: u8>(stick: &[f32; FLOATS], target: *mut u8) {
    const AVX_512: u8 = Tier::Avx512 as u8;
    const AVX_2: u8 = Tier::Avx2 as u8;
    // SAFETY: as the caller promises.
    unsafe {
        match TIER {
            #[cfg(target_arch = "x86_64")]
            AVX_512 => {
                use std::arch::x86_64::{_mm512_loadu_ps, _mm512_stream_ps};
                for (at, line) in stick.as_chunks::<16>().0.iter().enumerate() {
                    let line = _mm512_loadu_ps(line.as_ptr());
                    _mm512_stream_ps(target.add(at * stream::LINE).cast(), line);
                }
            }
            #[cfg(target_arch = "x86_64")]
            AVX_2 => {
                use std::arch::x86_64::{_mm256_loadu_ps, _mm256_stream_ps};
                for (at, half) in stick.as_chunks::<8>().0.iter().enumerate() {
                    let half = _mm256_loadu_ps(half.as_ptr());
                    _mm256_stream_ps(target.add(at * stream::LINE / 2).cast(), half);
                }
            }
            _ => copy_stick(stick.as_ptr().cast(), target),
        }
    }
}

/// # Safety
/// As [`copy_stick_grid`], on a CPU with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn copy_512(source: *const u8, target: *mut u8, grid: StickGrid) {
    // SAFETY: as the caller promises.
    unsafe { each_stick(source, target, grid, |from, to| copy_stick(from, to)) }
}

/// # Safety
/// As [`copy_stick_grid`], on a CPU with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn copy_256(source: *const u8, target: *mut u8, grid: StickGrid) {
    // SAFETY: as the caller promises.
    unsafe { each_stick(source, target, grid, |from, to| copy_stick(from, to)) }
}

/// # Safety
/// As [`copy_stick_grid_past_cache`], on a CPU with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn stream_512(source: *const u8, target: *mut u8, grid: StickGrid) {
    use std::arch::x86_64::{_mm512_loadu_si512, _mm512_stream_si512};

    // SAFETY: as the caller promises.
    unsafe {
        each_stick(source, target, grid, |from, to| {
            for at in (0..STICK_BYTES).step_by(stream::LINE) {
                _mm512_stream_si512(to.add(at).cast(), _mm512_loadu_si512(from.add(at).cast()));
            }
        });
    }
}

/// # Safety
/// Both ends hold a stick.
#[inline(always)]
unsafe fn copy_stick(from: *const u8, to: *mut u8) {
    // SAFETY: as the caller promises.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<[u8; STICK_BYTES]>(), to.cast(), 1) };
}

/// Calls `act` with where each stick is and where it goes, column by column.
///
/// # Safety
/// Both ends hold the sticks.
#[inline(always)]
unsafe fn each_stick(
    source: *const u8,
    target: *mut u8,
    grid: StickGrid,
    act: impl Fn(*const u8, *mut u8),
) {
    let StickGrid { counts: [columns, rows], source_strides, target_strides } = grid;
    for column in 0..columns {
        for row in 0..rows {
            // SAFETY: as the caller promises.
            let (from, to) = unsafe {
                let from = source.add(column * source_strides[0] + row * source_strides[1]);
                (from, target.add(column * target_strides[0] + row * target_strides[1]))
            };
            act(from, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line's worth of bytes that starts at a line, which streamed stores ask for.
    #[repr(align(64))]
    #[derive(Clone, Copy)]
    struct Line([u8; stream::LINE]);

    /// Copies three columns of five sticks to where four columns have room.
    fn check(copy: unsafe fn(*const u8, *mut u8, StickGrid)) {
        let grid = StickGrid {
            counts: [3, 5],
            source_strides: [8 * STICK_BYTES, STICK_BYTES],
            target_strides: [STICK_BYTES, 4 * STICK_BYTES],
        };
        let source: Vec<u8> = (0..24 * STICK_BYTES).map(|at| (at % 251) as u8).collect();
        let mut target = vec![Line([0xfe; stream::LINE]); 20 * STICK_BYTES / stream::LINE];
        // SAFETY: both hold the sticks, and lines are aligned.
        unsafe { copy(source.as_ptr(), target.as_mut_ptr().cast(), grid) };
        stream::fence();
        let bytes: Vec<u8> = target.iter().flat_map(|line| line.0).collect();
        for (at, stick) in bytes.chunks(STICK_BYTES).enumerate() {
            let row = at / 4;
            let column = at % 4;
            let expected = if column < 3 {
                &source[(column * 8 + row) * STICK_BYTES..][..STICK_BYTES]
            } else {
                &[0xfe; STICK_BYTES]
            };
            assert_eq!(stick, expected, "stick {at}");
        }
    }

    #[test]
    fn every_stick_arrives_and_no_other_byte_changes() {
        check(copy_stick_grid);
        check(copy_stick_grid_past_cache);
    }
}
