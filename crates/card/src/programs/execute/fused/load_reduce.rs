//! Loads of large tensors whose elements are also reduced row by row: the sums and maxima are made while the
//! memory brings the sticks.

use spyre_artifact::{Operand, ReduceOp, Register};
use spyre_numerics::Tier;

use crate::memory::MemorySlice;
use crate::programs::access::nest::Nest;
use crate::programs::access::operand::Series;
use crate::programs::access::sticks::{PlacedSticks, STICK};
use crate::programs::execute::buffer::Element;
use crate::programs::execute::elementwise::NanWins;
use crate::programs::execute::reduce::{GROUP, LANES, values_of};
use crate::programs::execute::vector::{Job, run};
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;
use crate::programs::schedule::tiles::dims;

impl Machine<'_> {
    /// Loads a tile and reduces it into `target`, if the tensor is large and all of the tile lies in whole
    /// sticks. `false` if not, and then nothing is reduced.
    pub(in crate::programs) fn load_folded(
        &mut self,
        at: usize,
        op: ReduceOp,
        [target, tile]: [Register; 2],
        source: Operand,
    ) -> Result<bool, Stop> {
        match op {
            ReduceOp::Sum => self.load_folding(at, [target, tile], source, -0.0, |a, b| a + b),
            ReduceOp::Max => {
                let least = f32::NEG_INFINITY;
                self.load_folding(at, [target, tile], source, least, f32::larger)
            }
            _ => Ok(false),
        }
    }

    fn load_folding(
        &mut self,
        at: usize,
        [target, register]: [Register; 2],
        source: Operand,
        neutral: f32,
        act: impl Fn(f32, f32) -> f32 + Copy,
    ) -> Result<bool, Stop> {
        let (tensor, part) = self.tensor(source)?;
        let is_known = self.flat.is_some() || self.binding.plan.at(at).is_some();
        if is_known || !tensor.is_streamed() {
            return Ok(false);
        }
        let nest = self.nest_of(target, register);
        let tile = self.sticks_of(register);
        let Some(tile) = tile.filter(|tile| nest.row().stride == 0 && tile.rows <= GROUP) else {
            return Ok(false);
        };
        let converter = self.code.converter(at, 0)?;
        let mut values = self.registers.take_from::<f32>(register);
        values.resize(tile.rows * tile.columns * STICK, 0.0);
        let mut lanes = [[neutral; LANES]; GROUP];
        let mut is_done = true;
        let loaded =
            tensor.each_series(&self.tiles, dims(self.span_of(source)), |series: Series| {
                let sticks =
                    tensor.sticks(series, converter).and_then(|sticks| tile.place(&sticks));
                match sticks.filter(|_| is_done) {
                    Some(place) => {
                        let values = &mut values[..];
                        let lanes = &mut lanes;
                        let pitch = tile.columns;
                        run(
                            Tier::detected(),
                            LoadFolding { part, place, values, pitch, lanes, act },
                        );
                    }
                    None => is_done = false,
                }
                Ok(())
            });
        *f32::of_mut(self.registers.tile_mut(register)) = values;
        loaded?;
        if is_done {
            self.hold(target, &nest, &lanes, tile.rows, act);
        }
        Ok(is_done)
    }

    /// Combines rows' lanes with what is held of each.
    fn hold(
        &mut self,
        target: Register,
        nest: &Nest,
        lanes: &[[f32; LANES]; GROUP],
        rows: usize,
        act: impl Fn(f32, f32) -> f32 + Copy,
    ) {
        let held = f32::of_mut(self.registers.tile_mut(target));
        let mut starts = nest.starts();
        for &value in &values_of(lanes, act)[..rows] {
            let held = &mut held[starts.next()];
            *held = act(*held, value);
        }
    }
}

struct LoadFolding<'a, F> {
    part: MemorySlice<'a>,
    place: PlacedSticks,
    values: &'a mut [f32],
    /// Sticks from one row of values to the next.
    pitch: usize,
    lanes: &'a mut [[f32; LANES]; GROUP],
    act: F,
}

impl<F: Fn(f32, f32) -> f32 + Copy> Job for LoadFolding<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(self) {
        let Self { part, place, values, pitch, lanes, act } = self;
        let [first_column, first_row] = place.first;
        let values = values.as_chunks_mut::<STICK>().0;
        part.each_stick(
            place.at,
            place.counts,
            place.strides,
            #[inline(always)]
            |column, row, stick| {
                let column = first_column + column;
                let row = first_row + row;
                values[row * pitch + column] = stick;
                for some in stick.as_chunks::<LANES>().0 {
                    for (lane, &value) in lanes[row].iter_mut().zip(some) {
                        *lane = act(*lane, value);
                    }
                }
            },
        );
    }
}
