//! Products of tensors, block by block of what is summed over.
//!
//! A block's sticks are used where they lie if a kernel can: rows of the left side always, panels of the right side
//! if they lie along its columns and near each other. All else is packed into buffers that stay in a core's second cache.
#![allow(unsafe_code, reason = "kernels on sticks in device memory")]

use spyre_artifact::{Dim, Register, Span};
use spyre_numerics::{DataFormat, Tier};

use crate::programs::access::operand::{TileRun, TileRuns};
use crate::programs::access::sticks::STICK;
use crate::programs::execute::transpose::Transpose;
use crate::programs::execute::vector::vectorised;
use crate::programs::load::factors::TensorSide;
use crate::programs::matmul::dot::Counts;
use crate::programs::matmul::operands::{Dense, Roles, Side};
use crate::programs::matmul::packed_sticks::TensorSticks;
use crate::programs::matmul::product::{PANEL, PanelSums, Strips, TermPanel, add_rows, most_rows};
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;
use crate::programs::schedule::tiles::dims;

/// Terms of a block: a few rows of it fit into the first cache, and a panel of it beside them.
const DEPTH: usize = 256;
/// Terms of a block in tiles of bfloat16.
const DEPTH_OF_TILES: usize = 512;
/// Bytes of a number of 32 bits.
const BYTES: usize = size_of::<f32>();
/// Numbers of 32 bits in a cache line.
const LINE: usize = 16;

/// The two sides of a product, of which the right one is a tensor, and what they are multiplied along.
#[derive(Clone, Copy)]
pub(in crate::programs) struct Factors {
    pub(in crate::programs) left: Side,
    pub(in crate::programs) right: TensorSide,
    pub(in crate::programs) k: Dim,
    pub(in crate::programs) roles: Roles,
}

/// Buffers of a block: of panels, or of both halves of each side, pairs, and sums of a panel that is not whole.
pub(in crate::programs) type Rooms = [Vec<f32>; 7];

impl Factors {
    pub(in crate::programs) fn along_left(self) -> impl Iterator<Item = Dim> + Clone {
        dims(self.roles.left).chain([self.k])
    }

    pub(in crate::programs) fn along_right(
        self,
        is_transposed: bool,
    ) -> impl Iterator<Item = Dim> + Clone {
        let [first, last] = if is_transposed {
            [self.roles.right, Span::NONE.with(self.k)]
        } else {
            [Span::NONE.with(self.k), self.roles.right]
        };
        dims(first).chain(dims(last))
    }
}

impl<'a> Machine<'a> {
    /// Adds the product of two tiles.
    pub(in crate::programs) fn add_blocks(
        &mut self,
        target: Register,
        factors: Factors,
    ) -> Result<(), Stop> {
        let tiles = self.tiles;
        let k = factors.k.index();
        let end = tiles.elements[k];
        let in_tiles = self.halves_of_both(factors)?;
        let depth = if in_tiles.is_some() { DEPTH_OF_TILES } else { DEPTH };
        let mut sums = self.sums::<f32>(target, factors.roles);
        let mut rooms = Rooms::default().map(|_| self.registers.take());
        let rows = match factors.left {
            Side::Register(_) => Some(self.left::<f32>(factors.left, factors.roles)?),
            Side::Tensor(_) => None,
        };
        let outcome = (0..end).step_by(depth).try_for_each(|first| {
            self.check_turn()?;
            self.tiles.starts[k] = tiles.starts[k] + first;
            self.tiles.elements[k] = depth.min(end - first);
            let is_added = match in_tiles {
                Some(halves) => self.add_in_tiles(factors, halves, &mut sums, &mut rooms)?,
                None => false,
            };
            let columns = self.tiles.elements[k];
            let rows = rows.as_ref().map(|rows| {
                let first = rows.elements[first..].as_ptr();
                Strips { first, row: end, strip: 0, columns }
            });
            if is_added { Ok(()) } else { self.add_floats(factors, rows, &mut sums, &mut rooms) }
        });
        rows.into_iter().for_each(|rows| self.put_back(rows));
        self.tiles = tiles;
        rooms.into_iter().for_each(|room| self.registers.give(room));
        self.put_sums(target, factors.roles, sums);
        outcome
    }

    pub(in crate::programs) fn format(&self, side: TensorSide) -> Result<DataFormat, Stop> {
        Ok(self.code.converter(side.at, side.nth)?.from())
    }

    pub(in crate::programs) fn counts_of(&self, roles: Roles) -> Counts {
        Counts {
            batches: self.tiles.elements_of(roles.both),
            rows: self.tiles.elements_of(roles.left),
            columns: self.tiles.elements_of(roles.right),
            k: self.tiles.elements_of(roles.k),
        }
    }

    /// Adds a block; the left side's rows are given if they are a register's.
    fn add_floats(
        &mut self,
        factors: Factors,
        rows_of_left: Option<Strips>,
        sums: &mut [f32],
        [of_left, of_right, wide, ..]: &mut Rooms,
    ) -> Result<(), Stop> {
        let Counts { rows, columns, k, .. } = self.counts_of(factors.roles);
        let tier = Tier::detected();
        let strips = match factors.left {
            Side::Tensor(left) if tier >= Tier::Avx2 => {
                let sticks = self.whole_sticks(left, factors.along_left(), k);
                let strips = sticks.and_then(|it| it.near_strips(columns > PANEL, of_left));
                strips.or_else(|| self.strips(left, [factors.roles.left, factors.roles.k], k))
            }
            _ => None,
        };
        let mut dense = None;
        let left = match rows_of_left.or(strips) {
            Some(strips) => strips,
            None => {
                let matrix = self.left::<f32>(factors.left, factors.roles)?;
                let first = matrix.elements.as_ptr();
                dense = Some(matrix);
                Strips { first, row: k, strip: 0, columns: k }
            }
        };
        let panels = self.panels(factors, [of_right, wide])?;
        assert!(sums.len() >= rows * columns, "room for the sums");
        let groups = rows.div_ceil(most_rows(tier));
        let mut row = 0;
        for group in 0..groups {
            let count = (rows - row).div_ceil(groups - group);
            let a = Strips { first: left.first.wrapping_add(row * left.row), ..left };
            for panel in &panels.runs {
                let b = TermPanel { first: panel.first.cast(), pitch: panels.pitch / BYTES, k };
                let first = sums[row * columns + panel.place..].as_mut_ptr();
                let sums = PanelSums { first, pitch: columns, width: panel.elements };
                // SAFETY: rows and panels of this block, which were looked at, and as many sums.
                unsafe { add_rows(tier, count, a, b, sums) };
            }
            row += count;
        }
        dense.into_iter().for_each(|dense| self.put_back(dense));
        Ok(())
    }

    /// The right side in panels: where they lie, or packed.
    fn panels(
        &mut self,
        factors: Factors,
        [room, wide]: [&mut Vec<f32>; 2],
    ) -> Result<TileRuns, Stop> {
        let Factors { right, roles, .. } = factors;
        let Counts { rows, columns, k, .. } = self.counts_of(roles);
        let tier = Tier::detected();
        let is_transposed = self.lies_along(right.operand, roles.k, roles.right);
        let is_reused = rows > most_rows(tier);
        if !is_transposed && tier >= Tier::Avx2 {
            let panels = self.panels_in_place(right, roles)?;
            if let Some(panels) = panels {
                let is_near = panels.pitch == STICK * BYTES || !is_reused;
                let are_few = panels.runs.len() <= most_panels(columns);
                let is_used = is_near && are_few;
                return Ok(if is_used { panels } else { pack_runs(&panels, [columns, k], room) });
            }
        }
        let along = factors.along_right(is_transposed);
        let row = if is_transposed { k } else { columns };
        let sticks = self.whole_sticks(right, along, row).filter(|_| tier >= Tier::Avx2);
        let near = sticks.filter(|_| !is_transposed);
        if let Some(strips) = near.and_then(|it| it.near_strips(is_reused, room)) {
            return Ok(panels_of(strips, columns));
        }
        let long = k.next_multiple_of(STICK);
        let panel = long * PANEL;
        let packed = lines(room, columns.div_ceil(PANEL) * panel);
        let first = packed.as_ptr();
        let panels = panels_of(Strips { first, row: PANEL, strip: panel, columns: PANEL }, columns);
        #[cfg(target_arch = "x86_64")]
        if is_transposed && tier >= Tier::Avx512 {
            let rows = self.strips(right, [roles.right, roles.k], long);
            let is_transposed = match (sticks, rows.and_then(|rows| rows.in_sticks(long))) {
                (Some(sticks), _) => transpose_sticks(sticks, [columns, k], packed, wide),
                (None, Some(rows)) => {
                    // SAFETY: the CPU has the instructions, and there is room for all panels.
                    unsafe { x86::transpose_panels(rows, [columns, long], packed.as_mut_ptr()) };
                    true
                }
                (None, None) => false,
            };
            if is_transposed {
                return Ok(panels);
            }
        }
        let along = factors.along_right(is_transposed);
        let matrix: Dense<f32> = self.loaded(right, along)?;
        for (nth, panel) in packed.chunks_exact_mut(panel.max(1)).enumerate() {
            let first = nth * PANEL;
            let width = PANEL.min(columns - first);
            if width < PANEL {
                panel.fill(0.0);
            }
            if is_transposed {
                f32::transpose(tier, &matrix.elements[first * k..][..width * k], k, panel, PANEL);
            } else {
                let rows = matrix.elements.chunks_exact(columns);
                for (row, target) in rows.zip(panel.as_chunks_mut::<PANEL>().0) {
                    target[..width].copy_from_slice(&row[first..][..width]);
                }
            }
        }
        self.put_back(matrix);
        Ok(panels)
    }

    /// Panels of a right side that lies along its columns, if it has numbers of float32.
    fn panels_in_place(&self, right: TensorSide, roles: Roles) -> Result<Option<TileRuns>, Stop> {
        if self.format(right)? != DataFormat::IeeeFp32 {
            return Ok(None);
        }
        let (tensor, part) = self.tensor(right.operand)?;
        Ok(tensor.tile_runs(part, &self.tiles, [roles.right, roles.k], PANEL))
    }

    /// Rows of a side along k, of which `room` terms may be read, if they lie evenly and have numbers of float32.
    fn strips(&self, side: TensorSide, sides: [Span; 2], room: usize) -> Option<Strips> {
        let format = self.format(side).ok()?;
        let (tensor, part) = self.tensor(side.operand).ok()?;
        let rows = tensor.tile_rows(part, &self.tiles, sides, room)?;
        (format == DataFormat::IeeeFp32).then_some(Strips {
            first: rows.first.cast(),
            row: rows.row / BYTES,
            strip: rows.across / BYTES,
            columns: rows.run,
        })
    }

    /// A tensor's tile as sticks in columns and rows, if it is whole ones in the order of some dims, of which the last
    /// ones make a row of so many elements.
    pub(in crate::programs) fn whole_sticks(
        &self,
        side: TensorSide,
        along: impl IntoIterator<Item = Dim> + Clone,
        row: usize,
    ) -> Option<TensorSticks<'a>> {
        let format = self.format(side).ok()?;
        let (tensor, part) = self.tensor(side.operand).ok()?;
        let bytes = tensor.element_bytes();
        let lengths = along.clone().into_iter().map(|dim| self.tiles.elements[dim.index()]);
        let elements: usize = lengths.product();
        let columns = row * bytes / 128;
        if columns == 0 || !(row * bytes).is_multiple_of(128) {
            return None;
        }
        let mut found = None;
        let mut count = 0;
        let walked = tensor.each_series(&self.tiles, along, |series| {
            count += 1;
            found = if count == 1 { tensor.sticks_in_rows(series, columns) } else { None };
            Ok(())
        });
        let sticks = found.filter(|sticks| walked.is_ok() && sticks.start == 0)?;
        let is_all = sticks.counts == [columns, elements / row];
        let sticks = part.sticks(sticks.at, sticks.counts, sticks.there);
        is_all.then_some(TensorSticks { sticks, format })
    }
}

/// Copies k rows of runs into panels one behind the other.
fn pack_runs(from: &TileRuns, [columns, k]: [usize; 2], room: &mut Vec<f32>) -> TileRuns {
    let packed = lines(room, columns.div_ceil(PANEL) * k * PANEL);
    let first = packed.as_ptr();
    vectorised(
        #[inline(always)]
        || {
            for term in 0..k {
                for run in &from.runs {
                    let source = run.first.wrapping_add(term * from.pitch).cast::<f32>();
                    let mut done = 0;
                    while done < run.elements {
                        let [panel, place] =
                            [(run.place + done) / PANEL, (run.place + done) % PANEL];
                        let count = (PANEL - place).min(run.elements - done);
                        let target = &mut packed[(panel * k + term) * PANEL + place..][..count];
                        let source = source.wrapping_add(done);
                        // SAFETY: the run's elements were looked at, and may be changed by others at any time; the
                        // target is a buffer.
                        unsafe {
                            if let Some(whole) = target.first_chunk_mut::<PANEL>() {
                                *whole = source.cast::<[f32; PANEL]>().read_unaligned();
                            } else {
                                target.as_mut_ptr().copy_from_nonoverlapping(source, count);
                            }
                        }
                        done += count;
                    }
                }
            }
        },
    );
    panels_of(Strips { first, row: PANEL, strip: k * PANEL, columns: PANEL }, columns)
}

/// Most panels that are used where they lie: short ones waste more than packing takes.
fn most_panels(columns: usize) -> usize {
    let least = columns.div_ceil(PANEL);
    least + least / 3
}

/// Panels of strips that are evenly spaced.
fn panels_of(strips: Strips, columns: usize) -> TileRuns {
    let runs = (0..columns).step_by(PANEL).map(|place| TileRun {
        first: strips.first.wrapping_add(place / PANEL * strips.strip).cast(),
        place,
        elements: PANEL.min(columns - place),
    });
    TileRuns { runs: runs.collect(), pitch: strips.row * BYTES }
}

/// Transposes columns that lie along k into panels: formats that are not float32 panel by panel, by way of a buffer.
/// Returns false if there is a format that cannot be.
///
/// # Panics
/// If there is no room for all panels, or no CPU with AVX-512.
#[cfg(target_arch = "x86_64")]
fn transpose_sticks(
    sticks: TensorSticks<'_>,
    [columns, k]: [usize; 2],
    target: &mut [f32],
    wide: &mut Vec<f32>,
) -> bool {
    assert!(Tier::Avx512.is_available() && target.len() >= columns.next_multiple_of(PANEL) * k);
    if let Some(strips) = sticks.strips() {
        // SAFETY: the CPU has the instructions, and there is room for all panels.
        unsafe { x86::transpose_panels(strips, [columns, k], target.as_mut_ptr()) };
        return true;
    }
    let mut panels = target.chunks_exact_mut(PANEL * k).enumerate();
    panels.all(|(nth, panel)| {
        let first = nth * PANEL;
        let count = PANEL.min(columns - first);
        let Some(strips) = sticks.rows(first, count).packed(wide) else { return false };
        // SAFETY: as above, for one panel.
        unsafe { x86::transpose_panels(strips, [count, k], panel.as_mut_ptr()) };
        true
    })
}

/// Numbers of a buffer, which may be anything, from the start of a cache line on.
pub(in crate::programs) fn lines(buffer: &mut Vec<f32>, numbers: usize) -> &mut [f32] {
    if buffer.len() < numbers + LINE {
        buffer.resize(numbers + LINE, 0.0);
    }
    let bytes = LINE * size_of::<f32>();
    let past = buffer.as_ptr().addr() % bytes;
    let start = if past == 0 { 0 } else { (bytes - past) / size_of::<f32>() };
    &mut buffer[start..start + numbers]
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

    use super::{PANEL, STICK, Strips};
    use crate::programs::execute::transpose::transpose_square;

    /// A row of nothing, for columns past the end.
    static NOTHING: [f32; 16] = [0.0; 16];

    /// Transposes columns that lie along k into panels.
    ///
    /// # Safety
    /// The CPU has AVX-512; the strips have so many rows and whole sticks, and there is room for all panels.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn transpose_panels(
        strips: Strips,
        [columns, k]: [usize; 2],
        target: *mut f32,
    ) {
        for stick in 0..k / STICK {
            for first in (0..columns).step_by(PANEL) {
                // The next panel's rows follow these, or are in the next strip.
                let ahead = match first + PANEL {
                    next if next < columns => PANEL * strips.row,
                    _ => strips.strip.wrapping_sub(first * strips.row),
                };
                for square in 0..4 {
                    let column = first + square / 2 * 16;
                    let half = square % 2 * 16;
                    let rows = std::array::from_fn(|nth| {
                        let row = (column + nth) * strips.row + stick * strips.strip + half;
                        let row = strips.first.wrapping_add(row);
                        _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(ahead).cast());
                        if column + nth < columns { row } else { NOTHING.as_ptr() }
                    });
                    // SAFETY: rows that are there, or nothing; room for a panel of k rows.
                    unsafe {
                        let term = stick * STICK + half;
                        let target = target.add(first * k + term * PANEL + square / 2 * 16);
                        transpose_square(rows, target, PANEL);
                    }
                }
            }
        }
    }
}
