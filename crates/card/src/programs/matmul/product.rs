//! The inner loops of matrix products: a few rows times a panel of columns.
//!
//! Each result is one chain of fused multiply-adds in the order of k, on every CPU.
#![allow(unsafe_code, reason = "vector instructions on pointers")]

use spyre_numerics::Tier;

/// Columns of a panel.
pub(in crate::programs) const PANEL: usize = 32;

/// Rows of a matrix, `pitch` elements apart.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct Matrix<'a, T> {
    pub(in crate::programs) elements: &'a [T],
    pub(in crate::programs) pitch: usize,
}

/// Adds the product of `a`, rows of k, and `b`, k rows of a whole panel, to `width` columns of
/// `sums`, whose rows are `pitch` apart.
pub(in crate::programs) trait Product: Copy {
    fn add_product(
        tier: Tier,
        k: usize,
        a: Matrix<'_, Self>,
        b: Matrix<'_, Self>,
        sums: &mut [Self],
        pitch: usize,
        width: usize,
    );

    fn plus(self, other: Self) -> Self;

    fn fused(a: Self, b: Self, sum: Self) -> Self;

    /// Numbers as they are, if they are float32.
    fn floats(_: &[Self]) -> Option<&[f32]> {
        None
    }

    fn floats_mut(_: &mut [Self]) -> Option<&mut [f32]> {
        None
    }
}

/// The shape of a product, once it was compared with its slices.
#[derive(Clone, Copy)]
struct Shape {
    rows: usize,
    k: usize,
    a_pitch: usize,
    b_pitch: usize,
    pitch: usize,
    width: usize,
}

impl Shape {
    /// # Panics
    /// If a slice is too short.
    fn check<T: Copy>(
        k: usize,
        a: Matrix<'_, T>,
        b: Matrix<'_, T>,
        sums: &[T],
        pitch: usize,
        width: usize,
    ) -> Self {
        let rows = if width == 0 { 0 } else { (sums.len() + pitch - width) / pitch.max(1) };
        let reach = |rows: usize, pitch: usize, width: usize| match rows {
            0 => 0,
            _ => (rows - 1) * pitch + width,
        };
        assert!(width <= PANEL && k > 0, "columns of one panel");
        assert!(a.elements.len() >= reach(rows, a.pitch, k), "as many rows as sums");
        assert!(b.elements.len() >= reach(k, b.pitch, PANEL), "k rows of a panel");
        assert!(sums.len() >= reach(rows, pitch, width), "room for the sums");
        Self { rows, k, a_pitch: a.pitch, b_pitch: b.pitch, pitch, width }
    }
}

impl Product for f32 {
    fn add_product(
        tier: Tier,
        k: usize,
        a: Matrix<'_, Self>,
        b: Matrix<'_, Self>,
        sums: &mut [Self],
        pitch: usize,
        width: usize,
    ) {
        let shape = Shape::check(k, a, b, sums, pitch, width);
        match tier {
            // SAFETY: the CPU has the instructions, and the slices were compared with the shape.
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 if tier.is_available() => unsafe {
                x86::avx512(shape, a.elements.as_ptr(), b.elements.as_ptr(), sums.as_mut_ptr());
            },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 if tier.is_available() => unsafe {
                x86::avx2(shape, a.elements.as_ptr(), b.elements.as_ptr(), sums.as_mut_ptr());
            },
            _ => plain(shape, a.elements, b.elements, sums, Self::fused),
        }
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn fused(a: Self, b: Self, sum: Self) -> Self {
        a.mul_add(b, sum)
    }

    fn floats(elements: &[Self]) -> Option<&[f32]> {
        Some(elements)
    }

    fn floats_mut(elements: &mut [Self]) -> Option<&mut [f32]> {
        Some(elements)
    }
}

impl Product for f64 {
    fn add_product(
        _: Tier,
        k: usize,
        a: Matrix<'_, Self>,
        b: Matrix<'_, Self>,
        sums: &mut [Self],
        pitch: usize,
        width: usize,
    ) {
        let shape = Shape::check(k, a, b, sums, pitch, width);
        crate::programs::execute::vector::vectorised(
            #[inline(always)]
            || plain(shape, a.elements, b.elements, sums, Self::fused),
        );
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn fused(a: Self, b: Self, sum: Self) -> Self {
        a.mul_add(b, sum)
    }
}

/// Whole numbers wrap.
impl Product for i64 {
    fn add_product(
        _: Tier,
        k: usize,
        a: Matrix<'_, Self>,
        b: Matrix<'_, Self>,
        sums: &mut [Self],
        pitch: usize,
        width: usize,
    ) {
        let shape = Shape::check(k, a, b, sums, pitch, width);
        crate::programs::execute::vector::vectorised(
            #[inline(always)]
            || plain(shape, a.elements, b.elements, sums, Self::fused),
        );
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn fused(a: Self, b: Self, sum: Self) -> Self {
        sum.wrapping_add(a.wrapping_mul(b))
    }
}

/// A few rows at a time, whose sums the compiler keeps in registers.
#[inline(always)]
fn plain<T: Copy + Default>(
    shape: Shape,
    a: &[T],
    b: &[T],
    sums: &mut [T],
    fused: impl Fn(T, T, T) -> T + Copy,
) {
    let mut row = 0;
    while row + PLAIN_ROWS <= shape.rows {
        plain_rows::<T, PLAIN_ROWS>(shape, row, a, b, sums, fused);
        row += PLAIN_ROWS;
    }
    while row < shape.rows {
        plain_rows::<T, 1>(shape, row, a, b, sums, fused);
        row += 1;
    }
}

/// Rows that plain code works on at a time.
const PLAIN_ROWS: usize = 4;

#[inline(always)]
fn plain_rows<T: Copy + Default, const ROWS: usize>(
    shape: Shape,
    first: usize,
    a: &[T],
    b: &[T],
    sums: &mut [T],
    fused: impl Fn(T, T, T) -> T + Copy,
) {
    let Shape { k, a_pitch, b_pitch, pitch, width, .. } = shape;
    let mut totals = [[T::default(); PANEL]; ROWS];
    for (row, totals) in totals.iter_mut().enumerate() {
        totals[..width].copy_from_slice(&sums[(first + row) * pitch..][..width]);
    }
    for at in 0..k {
        let Some(b) = b[at * b_pitch..].first_chunk::<PANEL>() else { return };
        for (row, totals) in totals.iter_mut().enumerate() {
            let a = a[(first + row) * a_pitch + at];
            totals.iter_mut().zip(b).for_each(|(total, &b)| *total = fused(a, b, *total));
        }
    }
    for (row, totals) in totals.iter().enumerate() {
        sums[(first + row) * pitch..][..width].copy_from_slice(&totals[..width]);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256, __m512, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_maskload_ps,
        _mm256_maskstore_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm512_fmadd_ps, _mm512_loadu_ps,
        _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps,
    };

    use super::{PANEL, Shape};

    /// Rows that go together: as many as their sums, two columns and one number of the left side
    /// have registers for.
    const MOST_ROWS_512: usize = 14;
    const MOST_ROWS_256: usize = 6;

    /// Calls `$rows` for groups of rows that are about equally many, and at most `$most`.
    macro_rules! in_groups {
        ($shape:expr, $most:expr, $rows:ident, $a:expr, $b:expr, $sums:expr, [$($count:literal)*]) => {{
            let shape = $shape;
            let groups = shape.rows.div_ceil($most);
            let mut row = 0;
            for group in 0..groups {
                let count = (shape.rows - row).div_ceil(groups - group);
                let a = $a.add(row * shape.a_pitch);
                let sums = $sums.add(row * shape.pitch);
                match count {
                    $($count => $rows::<$count>(shape, a, $b, sums),)*
                    _ => unreachable!("a group has 1 to {} rows", $most),
                }
                row += count;
            }
        }};
    }

    /// # Safety
    /// The CPU has AVX-512, and the pointers lead to what the shape says.
    #[target_feature(enable = "avx512f")]
    pub(in crate::programs) unsafe fn avx512(
        shape: Shape,
        a: *const f32,
        b: *const f32,
        sums: *mut f32,
    ) {
        // SAFETY: the rows are there, as the caller promises.
        unsafe {
            in_groups!(
                shape,
                MOST_ROWS_512,
                rows512,
                a,
                b,
                sums,
                [1 2 3 4 5 6 7 8 9 10 11 12 13 14]
            );
        }
    }

    /// # Safety
    /// The CPU has AVX-512, and the pointers lead to so many rows of what the shape says.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn rows512<const ROWS: usize>(
        shape: Shape,
        a: *const f32,
        b: *const f32,
        sums: *mut f32,
    ) {
        let Shape { k, a_pitch, b_pitch, pitch, width, .. } = shape;
        let mask = (1_u64 << width) - 1;
        let masks = [mask as u16, (mask >> 16) as u16];
        let mut totals: [[__m512; 2]; ROWS] = [[_mm512_setzero_ps(); 2]; ROWS];
        // SAFETY: rows of `width` sums, of k numbers and of a panel, as the caller promises; what
        // the mask leaves out is not touched.
        unsafe {
            for (row, totals) in totals.iter_mut().enumerate() {
                let sums = sums.add(row * pitch);
                totals[0] = _mm512_maskz_loadu_ps(masks[0], sums);
                totals[1] = _mm512_maskz_loadu_ps(masks[1], sums.wrapping_add(16));
            }
            for at in 0..k {
                let b = b.add(at * b_pitch);
                let columns = [_mm512_loadu_ps(b), _mm512_loadu_ps(b.add(16))];
                for (row, totals) in totals.iter_mut().enumerate() {
                    let a = _mm512_set1_ps(*a.add(row * a_pitch + at));
                    totals[0] = _mm512_fmadd_ps(a, columns[0], totals[0]);
                    totals[1] = _mm512_fmadd_ps(a, columns[1], totals[1]);
                }
            }
            for (row, totals) in totals.iter().enumerate() {
                let sums = sums.add(row * pitch);
                _mm512_mask_storeu_ps(sums, masks[0], totals[0]);
                _mm512_mask_storeu_ps(sums.wrapping_add(16), masks[1], totals[1]);
            }
        }
    }

    /// # Safety
    /// The CPU has AVX2 and FMA, and the pointers lead to what the shape says.
    #[target_feature(enable = "avx2,fma")]
    pub(in crate::programs) unsafe fn avx2(
        shape: Shape,
        a: *const f32,
        b: *const f32,
        sums: *mut f32,
    ) {
        for half in (0..PANEL).step_by(16).filter(|half| *half < shape.width) {
            let part = Shape { width: (shape.width - half).min(16), ..shape };
            // SAFETY: the rows and columns are there, as the caller promises.
            unsafe {
                let b = b.add(half);
                let sums = sums.add(half);
                in_groups!(part, MOST_ROWS_256, rows256, a, b, sums, [1 2 3 4 5 6]);
            }
        }
    }

    /// # Safety
    /// The CPU has AVX2 and FMA, and the pointers lead to so many rows of what the shape says.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn rows256<const ROWS: usize>(
        shape: Shape,
        a: *const f32,
        b: *const f32,
        sums: *mut f32,
    ) {
        let Shape { k, a_pitch, b_pitch, pitch, width, .. } = shape;
        let lanes: [i32; 16] = std::array::from_fn(|lane| -i32::from(lane < width));
        let mut totals: [[__m256; 2]; ROWS] = [[_mm256_setzero_ps(); 2]; ROWS];
        // SAFETY: rows of `width` sums, of k numbers and of half a panel, as the caller promises;
        // what the mask leaves out is not touched.
        unsafe {
            let masks = [0, 8].map(|lane| _mm256_loadu_si256(lanes.as_ptr().add(lane).cast()));
            for (row, totals) in totals.iter_mut().enumerate() {
                let sums = sums.add(row * pitch);
                totals[0] = _mm256_maskload_ps(sums, masks[0]);
                totals[1] = _mm256_maskload_ps(sums.wrapping_add(8), masks[1]);
            }
            for at in 0..k {
                let b = b.add(at * b_pitch);
                let columns = [_mm256_loadu_ps(b), _mm256_loadu_ps(b.add(8))];
                for (row, totals) in totals.iter_mut().enumerate() {
                    let a = _mm256_set1_ps(*a.add(row * a_pitch + at));
                    totals[0] = _mm256_fmadd_ps(a, columns[0], totals[0]);
                    totals[1] = _mm256_fmadd_ps(a, columns[1], totals[1]);
                }
            }
            for (row, totals) in totals.iter().enumerate() {
                let sums = sums.add(row * pitch);
                _mm256_maskstore_ps(sums, masks[0], totals[0]);
                _mm256_maskstore_ps(sums.wrapping_add(8), masks[1], totals[1]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(at: usize) -> f32 {
        ((at * 2_654_435_761) % 10_007) as f32 / 977.0 - 5.0
    }

    #[test]
    fn every_tier_gives_the_bits_of_one_chain_per_result() {
        for (rows, k, width) in [(1, 1, 1), (3, 5, 32), (8, 64, 31), (21, 33, 17), (6, 7, 16)] {
            let pitch = width + 3;
            let a: Vec<f32> = (0..rows * (k + 1)).map(number).collect();
            let b: Vec<f32> = (0..k * PANEL).map(|at| number(at + 77)).collect();
            let before: Vec<f32> = (0..rows * pitch - 3).map(|at| number(at + 999)).collect();
            let mut expected = before.clone();
            for (row, column) in (0..rows).flat_map(|row| (0..width).map(move |c| (row, c))) {
                let sum = &mut expected[row * pitch + column];
                for at in 0..k {
                    *sum = a[row * (k + 1) + at].mul_add(b[at * PANEL + column], *sum);
                }
            }
            for tier in Tier::ALL.into_iter().filter(|tier| tier.is_available()) {
                let mut sums = before.clone();
                let a = Matrix { elements: &a, pitch: k + 1 };
                let b = Matrix { elements: &b, pitch: PANEL };
                f32::add_product(tier, k, a, b, &mut sums, pitch, width);
                assert!(sums == expected, "{rows} x {k} x {width}, {tier}");
            }
        }
    }
}
