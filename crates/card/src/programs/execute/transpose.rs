//! Turns matrices: rows become columns.
#![allow(unsafe_code, reason = "vector instructions on pointers")]

use spyre_numerics::Tier;

/// The side of a square that is transposed at a time.
const SIDE: usize = 16;

/// Copies a matrix so that its rows become columns: `columns` rows of `pitch`, of which the first
/// numbers are those of the source's rows.
pub(in crate::programs) trait Transpose: Copy {
    /// # Panics
    /// If a slice is too short.
    fn transpose(tier: Tier, source: &[Self], columns: usize, target: &mut [Self], pitch: usize) {
        let _ = tier;
        let rows = rows_of(source, columns, target, pitch);
        turn_part(source, columns, target, pitch, 0..rows, 0..columns);
    }
}

impl Transpose for f64 {}
impl Transpose for i64 {}

impl Transpose for f32 {
    fn transpose(tier: Tier, source: &[Self], columns: usize, target: &mut [Self], pitch: usize) {
        let rows = rows_of(source, columns, target, pitch);
        let [whole_rows, whole_columns] = match tier {
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 if tier.is_available() => {
                let whole = [rows, columns].map(|count| count - count % SIDE);
                for (row, column) in squares(whole) {
                    let from = &source[row * columns + column..];
                    let to = &mut target[column * pitch + row..];
                    assert!(from.len() >= (SIDE - 1) * columns + SIDE, "a whole square");
                    assert!(to.len() >= (SIDE - 1) * pitch + SIDE, "room for it");
                    // SAFETY: the CPU has the instructions, and both squares were looked at.
                    unsafe {
                        let rows = std::array::from_fn(|row| from.as_ptr().add(row * columns));
                        x86::transpose(rows, to.as_mut_ptr(), pitch);
                    };
                }
                whole
            }
            _ => [0, 0],
        };
        turn_part(source, columns, target, pitch, 0..whole_rows, whole_columns..columns);
        turn_part(source, columns, target, pitch, whole_rows..rows, 0..columns);
    }
}

/// The rows of a source that fit into a target.
fn rows_of<T>(source: &[T], columns: usize, target: &[T], pitch: usize) -> usize {
    let rows = source.len() / columns.max(1);
    let room = match columns {
        0 => 0,
        _ => (columns - 1) * pitch + rows,
    };
    assert!(rows <= pitch && room <= target.len(), "{rows} numbers in rows of {pitch}");
    rows
}

fn squares([rows, columns]: [usize; 2]) -> impl Iterator<Item = (usize, usize)> {
    let firsts = (0..rows).step_by(SIDE);
    firsts.flat_map(move |row| (0..columns).step_by(SIDE).map(move |column| (row, column)))
}

fn turn_part<T: Copy>(
    source: &[T],
    columns: usize,
    target: &mut [T],
    pitch: usize,
    rows: std::ops::Range<usize>,
    chosen: std::ops::Range<usize>,
) {
    for row in rows {
        let numbers = &source[row * columns..][..columns];
        for column in chosen.clone() {
            target[column * pitch + row] = numbers[column];
        }
    }
}

/// Transposes a square of numbers of 32 bits, whatever they mean: 16 rows, each where its pointer leads, become
/// columns of rows that are `pitch` apart.
///
/// # Safety
/// The CPU has AVX-512, and the pointers lead to 16 numbers each and to room for the square.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::programs) unsafe fn transpose_square(
    rows: [*const f32; SIDE],
    to: *mut f32,
    pitch: usize,
) {
    // SAFETY: as the caller promises.
    unsafe { x86::transpose(rows, to, pitch) }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m512, _mm512_castpd_ps, _mm512_castps_pd, _mm512_loadu_ps, _mm512_setzero_ps,
        _mm512_shuffle_f32x4, _mm512_storeu_ps, _mm512_unpackhi_pd, _mm512_unpackhi_ps,
        _mm512_unpacklo_pd, _mm512_unpacklo_ps,
    };

    use super::SIDE;

    /// Turns a square: pairs of numbers, pairs of pairs, and then quarters of registers.
    ///
    /// # Safety
    /// The CPU has AVX-512, and all pointers lead to rows of 16 numbers.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(in crate::programs) unsafe fn transpose(
        from: [*const f32; SIDE],
        to: *mut f32,
        pitch: usize,
    ) {
        let mut rows = [_mm512_setzero_ps(); SIDE];
        for (row, from) in rows.iter_mut().zip(from) {
            // SAFETY: the row is there, as the caller promises.
            *row = unsafe { _mm512_loadu_ps(from) };
        }
        let mut fours = [_mm512_setzero_ps(); SIDE];
        for at in (0..SIDE).step_by(4) {
            let [a, b, c, d] = [rows[at], rows[at + 1], rows[at + 2], rows[at + 3]];
            let [low, high] = [_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)];
            let [low_below, high_below] = [_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d)];
            fours[at] = low_pairs(low, low_below);
            fours[at + 1] = high_pairs(low, low_below);
            fours[at + 2] = low_pairs(high, high_below);
            fours[at + 3] = high_pairs(high, high_below);
        }
        for at in 0..4 {
            let [a, b, c, d] = [fours[at], fours[at + 4], fours[at + 8], fours[at + 12]];
            let even = [_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(c, d, 0x88)];
            let odd = [_mm512_shuffle_f32x4(a, b, 0xdd), _mm512_shuffle_f32x4(c, d, 0xdd)];
            let columns = [
                _mm512_shuffle_f32x4(even[0], even[1], 0x88),
                _mm512_shuffle_f32x4(odd[0], odd[1], 0x88),
                _mm512_shuffle_f32x4(even[0], even[1], 0xdd),
                _mm512_shuffle_f32x4(odd[0], odd[1], 0xdd),
            ];
            for (quarter, column) in columns.into_iter().enumerate() {
                // SAFETY: as above.
                unsafe { _mm512_storeu_ps(to.add((quarter * 4 + at) * pitch), column) };
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn low_pairs(a: __m512, b: __m512) -> __m512 {
        _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn high_pairs(a: __m512, b: __m512) -> __m512 {
        _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_columns_on_every_tier() {
        for (rows, columns, pitch) in
            [(1, 1, 1), (16, 16, 16), (32, 40, 32), (17, 33, 40), (5, 2, 5)]
        {
            let source: Vec<f32> = (0..rows * columns).map(|at| at as f32).collect();
            for tier in Tier::ALL.into_iter().filter(|tier| tier.is_available()) {
                let mut target = vec![-1.0; (columns - 1) * pitch + rows];
                f32::transpose(tier, &source, columns, &mut target, pitch);
                for (at, &number) in target.iter().enumerate() {
                    let column = at / pitch;
                    let row = at % pitch;
                    let expected = if row < rows { (row * columns + column) as f32 } else { -1.0 };
                    assert_eq!(number, expected, "{rows} x {columns}, {tier}");
                }
            }
        }
    }
}
