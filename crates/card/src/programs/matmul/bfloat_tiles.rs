//! Blocks of products whose factors are bfloat16, or sums of two: exact products, in tiles of the CPU.
#![allow(unsafe_code, reason = "kernels on sticks in device memory")]

use spyre_numerics::DataFormat;
use zerocopy::{FromBytes, IntoBytes};

use crate::programs::matmul::amx::{self, ROWS, STEP_BYTES, TERMS};
use crate::programs::matmul::blocks::{Factors, Rooms, lines};
use crate::programs::matmul::dot::Counts;
use crate::programs::matmul::halves::{halves_of, split_halves};
use crate::programs::matmul::operands::Side;
use crate::programs::matmul::packed_sticks::TensorSticks;
use crate::programs::matmul::pairs;
use crate::programs::matmul::product::PANEL;
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;

/// Fewer rows than this are not worth packing the right side into pairs.
const LEAST_ROWS: usize = 5;
/// Numbers of 16 bits in a stick.
const HALVES: usize = 64;

/// A side as rows of bfloat16, one or two whose sum its numbers are; bytes from a stick to the next one and from a row
/// to the next one.
#[derive(Clone, Copy, Debug)]
struct Halves {
    first: [*const u8; 2],
    count: usize,
    strides: [usize; 2],
    is_finite: bool,
}

/// Sums of all rows and columns of a product.
struct ProductSums<'a> {
    sums: &'a mut [f32],
    rows: usize,
    columns: usize,
    /// A panel of them that is not whole.
    room: &'a mut Vec<f32>,
}

impl Machine<'_> {
    /// Number of halves of both sides, if the product is one for tiles of bfloat16. That is a matter of formats and
    /// rows, never of how a tensor lies: all layouts give the same sums.
    pub(in crate::programs) fn halves_of_both(
        &self,
        factors: Factors,
    ) -> Result<Option<[usize; 2]>, Stop> {
        let Side::Tensor(left) = factors.left else { return Ok(None) };
        let rows = self.tiles.elements_of(factors.roles.left);
        let [left, right] = [self.format(left)?, self.format(factors.right)?].map(halves_of);
        let is_worth_it = rows >= LEAST_ROWS && amx::is_available();
        Ok(left.zip(right).filter(|_| is_worth_it).map(|(left, right)| [left, right]))
    }

    /// Adds a block. Returns false, and adds nothing, if halves of an infinity would make NaN of it.
    pub(in crate::programs) fn add_in_tiles(
        &mut self,
        factors: Factors,
        [of_left, of_right]: [usize; 2],
        sums: &mut [f32],
        rooms: &mut Rooms,
    ) -> Result<bool, Stop> {
        let Counts { rows, columns, k, .. } = self.counts_of(factors.roles);
        let [high_left, low_left, high_right, low_right, high_pairs, low_pairs, room] = rooms;
        let Factors { right, roles, .. } = factors;
        let is_transposed = self.lies_along(right.operand, roles.k, roles.right);
        let left = self.left_in_halves(factors, of_left, [high_left, low_left])?;
        let rooms = [high_right, low_right];
        let right = self.right_in_halves(factors, is_transposed, of_right, rooms)?;
        if of_left + of_right > 2 && !(left.is_finite && right.is_finite) {
            return Ok(false);
        }
        let steps = k.div_ceil(TERMS);
        let mut panels = [std::ptr::null(); 2];
        let rooms = [high_pairs, low_pairs].into_iter().zip(&mut panels);
        for ((room, panels), first) in rooms.zip(right.first).take(right.count) {
            let room = lines(room, columns.div_ceil(PANEL) * steps * STEP_BYTES / 4);
            let strides = right.strides;
            let source = pairs::RightSide { first, strides, is_transposed, k, columns };
            // SAFETY: tiles were found, and so was AVX-512; the sticks are whole, and there is room.
            unsafe { pairs::pack(source, room.as_mut_ptr().cast()) };
            *panels = room.as_ptr().cast::<u8>();
        }
        let target = ProductSums { sums, rows, columns, room };
        // SAFETY: rows and panels of so many steps.
        unsafe { target.add(left, (panels, right.count), steps) };
        Ok(true)
    }

    fn left_in_halves(
        &mut self,
        factors: Factors,
        count: usize,
        rooms: [&mut Vec<f32>; 2],
    ) -> Result<Halves, Stop> {
        let k = self.tiles.elements_of(factors.roles.k);
        let sticks = match factors.left {
            Side::Tensor(left) => self.whole_sticks(left, factors.along_left(), k),
            Side::Register(_) => None,
        };
        if let Some(halves) = sticks.and_then(Halves::of_sticks) {
            return Ok(halves);
        }
        let matrix = self.left::<f32>(factors.left, factors.roles)?;
        let halves = Halves::of_rows(&matrix.elements, k, count, rooms);
        self.put_back(matrix);
        Ok(halves)
    }

    fn right_in_halves(
        &mut self,
        factors: Factors,
        is_transposed: bool,
        count: usize,
        rooms: [&mut Vec<f32>; 2],
    ) -> Result<Halves, Stop> {
        let along = factors.along_right(is_transposed);
        let Counts { columns, k, .. } = self.counts_of(factors.roles);
        let length = if is_transposed { k } else { columns };
        let sticks = self.whole_sticks(factors.right, along.clone(), length);
        if let Some(halves) = sticks.and_then(Halves::of_sticks) {
            return Ok(halves);
        }
        let matrix = self.loaded::<f32>(factors.right, along)?;
        let halves = Halves::of_rows(&matrix.elements, length, count, rooms);
        self.put_back(matrix);
        Ok(halves)
    }
}

impl Halves {
    /// Sticks of bfloat16, as they lie.
    fn of_sticks(sticks: TensorSticks<'_>) -> Option<Self> {
        let TensorSticks { sticks, format } = sticks;
        let first = [sticks.first(); 2];
        let strides = sticks.strides();
        (format == DataFormat::BFloat16).then_some(Self {
            first,
            count: 1,
            strides,
            is_finite: true,
        })
    }

    /// Rows of so many numbers, which are split; what is left of a stick is zero.
    fn of_rows(numbers: &[f32], length: usize, count: usize, rooms: [&mut Vec<f32>; 2]) -> Self {
        let pitch = length.next_multiple_of(HALVES);
        let rows = numbers.len() / length.max(1);
        let mut halves = rooms.map(|room| {
            let room = lines(room, rows * pitch / 2).as_mut_bytes();
            <[u16]>::mut_from_bytes(room).expect("whole words")
        });
        let first = halves.each_ref().map(|half| half.as_ptr().cast());
        let [high, low] = &mut halves;
        let mut is_finite = true;
        let rows = numbers.chunks_exact(length.max(1)).zip(high.chunks_exact_mut(pitch));
        for ((numbers, high), low) in rows.zip(low.chunks_exact_mut(pitch)) {
            high[length..].fill(0);
            low[length..].fill(0);
            is_finite &= split_halves(numbers, high, (count > 1).then_some(low));
        }
        Self { first, count, strides: [HALVES * 2, pitch * 2], is_finite }
    }
}

impl ProductSums<'_> {
    /// # Safety
    /// Rows and panels of so many steps are there.
    unsafe fn add(
        self,
        left: Halves,
        (panels, count_of_right): ([*const u8; 2], usize),
        steps: usize,
    ) {
        let Self { sums, rows, columns, room } = self;
        assert!(sums.len() >= rows * columns, "room for the sums");
        for first in (0..rows).step_by(ROWS) {
            let count = ROWS.min(rows - first);
            let tiles = amx::Tiles::for_rows(count);
            for column in (0..columns).step_by(PANEL) {
                let offset = column / PANEL * steps * STEP_BYTES;
                let panels = panels.map(|panel| panel.wrapping_add(offset));
                let halves = left.first.map(|half| {
                    let [step_bytes, row_bytes] = left.strides;
                    let first = half.wrapping_add(first * row_bytes);
                    amx::TileRows { first, row_bytes, step_bytes }
                });
                let add = |target: amx::TileSums| match [left.count, count_of_right] {
                    // SAFETY: as the caller promises; sums of a whole panel.
                    [2, 2] => unsafe { tiles.add_halves(halves, panels, steps, target) },
                    counts => {
                        let rows = halves.into_iter().take(counts[0]);
                        let panels = || panels.into_iter().take(counts[1]);
                        for (a, panel) in rows.flat_map(|a| panels().map(move |panel| (a, panel))) {
                            // SAFETY: as above.
                            unsafe { tiles.add(a, panel, steps, target) };
                        }
                    }
                };
                let width = PANEL.min(columns - column);
                let sums = &mut sums[first * columns + column..];
                if width == PANEL {
                    let bytes = columns * size_of::<f32>();
                    add(amx::TileSums { first: sums.as_mut_ptr(), row_bytes: bytes });
                    continue;
                }
                let whole = lines(room, ROWS * PANEL);
                for (row, whole) in whole.chunks_exact_mut(PANEL).take(count).enumerate() {
                    whole[..width].copy_from_slice(&sums[row * columns..][..width]);
                }
                let bytes = PANEL * size_of::<f32>();
                add(amx::TileSums { first: whole.as_mut_ptr(), row_bytes: bytes });
                for (row, whole) in whole.chunks_exact(PANEL).take(count).enumerate() {
                    sums[row * columns..][..width].copy_from_slice(&whole[..width]);
                }
            }
        }
    }
}
