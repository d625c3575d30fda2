//! The inner loops of matrix products: a few rows times a panel of columns.
//!
//! Each result is one chain of fused multiply-adds in the order of k.
#![allow(unsafe_code, reason = "vector instructions on pointers")]

use spyre_numerics::Tier;

use crate::programs::access::sticks::STICK;

/// Columns of a panel.
pub(in crate::programs) const PANEL: usize = 32;

/// Rows of a matrix, `pitch` elements apart.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct Matrix<'a, T> {
    pub(in crate::programs) elements: &'a [T],
    pub(in crate::programs) pitch: usize,
}

/// Rows of float32 in strips of some columns, one strip behind the other: sticks as they lie, or all columns in
/// one strip. Distances are in elements.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct Strips {
    pub(in crate::programs) first: *const f32,
    /// Distance from a row to the next one.
    pub(in crate::programs) row: usize,
    /// Distance from a strip to the next one.
    pub(in crate::programs) strip: usize,
    /// Columns of a strip.
    pub(in crate::programs) columns: usize,
}

impl Strips {
    /// Rows of so many columns as strips of sticks, if they can be seen so.
    pub(in crate::programs) fn in_sticks(self, columns: usize) -> Option<Self> {
        if self.columns >= columns {
            return Some(Self { strip: STICK, columns: STICK, ..self });
        }
        (self.columns == STICK).then_some(self)
    }
}

/// `k` rows of a whole panel, `pitch` elements apart.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct TermPanel {
    pub(in crate::programs) first: *const f32,
    pub(in crate::programs) pitch: usize,
    pub(in crate::programs) k: usize,
}

/// PanelSums of some rows and up to a panel's columns, `pitch` elements from row to row.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct PanelSums {
    pub(in crate::programs) first: *mut f32,
    pub(in crate::programs) pitch: usize,
    pub(in crate::programs) width: usize,
}

/// Rows that the inner loop of a tier takes at once, at most.
pub(in crate::programs) fn most_rows(tier: Tier) -> usize {
    match tier {
        Tier::Avx512 => 14,
        Tier::Avx2 => 6,
        _ => PLAIN_ROWS,
    }
}

/// Adds a product of up to [`most_rows`] rows.
///
/// # Safety
/// The pointers lead to so many rows, and none of them to what another one writes.
pub(in crate::programs) unsafe fn add_rows(
    tier: Tier,
    rows: usize,
    a: Strips,
    b: TermPanel,
    sums: PanelSums,
) {
    debug_assert!(rows <= most_rows(tier) && sums.width <= PANEL, "rows of a group");
    // SAFETY: as the caller promises; the tier was detected.
    unsafe {
        match tier {
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 if tier.is_available() => x86::group512(rows, a, b, sums),
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 if tier.is_available() => x86::group256(rows, a, b, sums),
            _ => (0..rows).for_each(|row| plain_row(row, a, b, sums)),
        }
    }
}

/// # Safety
/// As [`add_rows`].
unsafe fn plain_row(row: usize, a: Strips, b: TermPanel, sums: PanelSums) {
    // SAFETY: as the caller promises.
    unsafe {
        let sums_of_row = sums.first.add(row * sums.pitch);
        let mut totals = [0.0; PANEL];
        (0..sums.width).for_each(|at| totals[at] = *sums_of_row.add(at));
        for at in 0..b.k {
            let strip = a.first.add(row * a.row + at / a.columns * a.strip);
            let left = *strip.add(at % a.columns);
            let right = b.first.add(at * b.pitch).cast::<[f32; PANEL]>().read_unaligned();
            totals.iter_mut().zip(right).for_each(|(sum, b)| *sum = left.mul_add(b, *sum));
        }
        (0..sums.width).for_each(|at| *sums_of_row.add(at) = totals[at]);
    }
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
        let tier = if tier.is_available() { tier } else { Tier::Portable };
        let groups = shape.rows.div_ceil(most_rows(tier));
        let mut row = 0;
        for group in 0..groups {
            let count = (shape.rows - row).div_ceil(groups - group);
            let left = &a.elements[row * a.pitch..];
            let left = Strips { first: left.as_ptr(), row: a.pitch, strip: 0, columns: k };
            let right = TermPanel { first: b.elements.as_ptr(), pitch: b.pitch, k };
            let sums = PanelSums { first: sums[row * pitch..].as_mut_ptr(), pitch, width };
            // SAFETY: the slices were compared with the shape.
            unsafe { add_rows(tier, count, left, right, sums) };
            row += count;
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
        __m256, __m512, _MM_HINT_T0, _mm_prefetch, _mm256_fmadd_ps, _mm256_loadu_ps,
        _mm256_loadu_si256, _mm256_maskload_ps, _mm256_maskstore_ps, _mm256_set1_ps,
        _mm256_setzero_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_storeu_ps,
        _mm512_maskz_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps,
    };

    use super::{PANEL, PanelSums, Strips, TermPanel};

    /// Rows of a panel that the cache fetches ahead of their use.
    const AHEAD: usize = 16;

    /// Calls `$rows` for this many rows.
    macro_rules! for_count {
        ($count:expr, $rows:ident($a:expr, $b:expr, $sums:expr), [$($known:literal)*]) => {
            match $count {
                $($known => $rows::<$known>($a, $b, $sums),)*
                _ => {}
            }
        };
    }

    /// # Safety
    /// The CPU has AVX-512; for the rest, as `add_rows`.
    #[target_feature(enable = "avx512f")]
    pub(in crate::programs) unsafe fn group512(
        rows: usize,
        a: Strips,
        b: TermPanel,
        sums: PanelSums,
    ) {
        // SAFETY: as the caller promises.
        unsafe { for_count!(rows, rows512(a, b, sums), [1 2 3 4 5 6 7 8 9 10 11 12 13 14]) }
    }

    /// # Safety
    /// As [`group512`], of so many rows.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn rows512<const ROWS: usize>(a: Strips, b: TermPanel, sums: PanelSums) {
        let mask = (1_u64 << sums.width) - 1;
        let masks = [mask as u16, (mask >> 16) as u16];
        let mut totals: [[__m512; 2]; ROWS] = [[_mm512_setzero_ps(); 2]; ROWS];
        // SAFETY: rows of `width` sums, of k numbers and of a panel, as the caller promises; what
        // the mask leaves out is not touched, and a hint may lead anywhere.
        unsafe {
            for (row, totals) in totals.iter_mut().enumerate() {
                let sums = sums.first.add(row * sums.pitch);
                totals[0] = _mm512_maskz_loadu_ps(masks[0], sums);
                totals[1] = _mm512_maskz_loadu_ps(masks[1], sums.wrapping_add(16));
            }
            let mut right = b.first;
            let mut strip = a.first;
            let mut left = b.k;
            while left > 0 {
                let columns = left.min(a.columns);
                for at in 0..columns {
                    let ahead = right.wrapping_add(AHEAD * b.pitch);
                    _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                    _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(16).cast());
                    let terms = [_mm512_loadu_ps(right), _mm512_loadu_ps(right.add(16))];
                    for (row, totals) in totals.iter_mut().enumerate() {
                        let factor = _mm512_set1_ps(*strip.add(row * a.row + at));
                        totals[0] = _mm512_fmadd_ps(factor, terms[0], totals[0]);
                        totals[1] = _mm512_fmadd_ps(factor, terms[1], totals[1]);
                    }
                    right = right.wrapping_add(b.pitch);
                }
                strip = strip.wrapping_add(a.strip);
                left -= columns;
            }
            for (row, totals) in totals.iter().enumerate() {
                let sums = sums.first.add(row * sums.pitch);
                _mm512_mask_storeu_ps(sums, masks[0], totals[0]);
                _mm512_mask_storeu_ps(sums.wrapping_add(16), masks[1], totals[1]);
            }
        }
    }

    /// # Safety
    /// The CPU has AVX2 and FMA; for the rest, as `add_rows`.
    #[target_feature(enable = "avx2,fma")]
    pub(in crate::programs) unsafe fn group256(
        rows: usize,
        a: Strips,
        b: TermPanel,
        sums: PanelSums,
    ) {
        for half in (0..PANEL).step_by(16).filter(|half| *half < sums.width) {
            // SAFETY: the rows and columns are there, as the caller promises.
            unsafe {
                let width = (sums.width - half).min(16);
                let part = PanelSums { first: sums.first.add(half), width, ..sums };
                let b = TermPanel { first: b.first.add(half), ..b };
                for_count!(rows, rows256(a, b, part), [1 2 3 4 5 6]);
            }
        }
    }

    /// # Safety
    /// As [`group256`], of so many rows and half a panel.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn rows256<const ROWS: usize>(a: Strips, b: TermPanel, sums: PanelSums) {
        let lanes: [i32; 16] = std::array::from_fn(|lane| -i32::from(lane < sums.width));
        let mut totals: [[__m256; 2]; ROWS] = [[_mm256_setzero_ps(); 2]; ROWS];
        // SAFETY: rows of `width` sums, of k numbers and of half a panel, as the caller promises;
        // what the mask leaves out is not touched.
        unsafe {
            let masks = [0, 8].map(|lane| _mm256_loadu_si256(lanes.as_ptr().add(lane).cast()));
            for (row, totals) in totals.iter_mut().enumerate() {
                let sums = sums.first.add(row * sums.pitch);
                totals[0] = _mm256_maskload_ps(sums, masks[0]);
                totals[1] = _mm256_maskload_ps(sums.wrapping_add(8), masks[1]);
            }
            let mut right = b.first;
            let mut strip = a.first;
            let mut left = b.k;
            while left > 0 {
                let columns = left.min(a.columns);
                for at in 0..columns {
                    let terms = [_mm256_loadu_ps(right), _mm256_loadu_ps(right.add(8))];
                    for (row, totals) in totals.iter_mut().enumerate() {
                        let factor = _mm256_set1_ps(*strip.add(row * a.row + at));
                        totals[0] = _mm256_fmadd_ps(factor, terms[0], totals[0]);
                        totals[1] = _mm256_fmadd_ps(factor, terms[1], totals[1]);
                    }
                    right = right.wrapping_add(b.pitch);
                }
                strip = strip.wrapping_add(a.strip);
                left -= columns;
            }
            for (row, totals) in totals.iter().enumerate() {
                let sums = sums.first.add(row * sums.pitch);
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
