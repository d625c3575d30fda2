//! Sides of a product as strips of float32: sticks as they lie where a kernel can use them, or packed into a buffer.

use std::marker::PhantomData;

use spyre_numerics::{DataFormat, Tier};

use crate::memory::DeviceSticks;
use crate::programs::access::sticks::STICK;
use crate::programs::execute::vector::{Job, LANES, run};
use crate::programs::matmul::blocks::lines;
use crate::programs::matmul::product::Strips;
use crate::programs::matmul::stick_format::{StickFormat, with_stick_format};

/// A tensor's tile as whole sticks.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct TensorSticks<'a> {
    pub(in crate::programs) sticks: DeviceSticks<'a>,
    pub(in crate::programs) format: DataFormat,
}

impl<'a> TensorSticks<'a> {
    /// Its numbers as strips where they lie, if they are float32.
    pub(in crate::programs) fn strips(self) -> Option<Strips> {
        let [strip, row] = self.sticks.strides();
        let bytes = size_of::<f32>();
        (self.format == DataFormat::IeeeFp32).then_some(Strips {
            first: self.sticks.first().cast(),
            row: row / bytes,
            strip: strip / bytes,
            columns: STICK,
        })
    }

    /// Its numbers as strips where they lie, or packed: if they have another format, or if rows that lie apart are
    /// used several times. A core's caches have few places for lines at a large distance.
    pub(in crate::programs) fn near_strips(
        self,
        is_reused: bool,
        room: &mut Vec<f32>,
    ) -> Option<Strips> {
        let is_near = |strips: &Strips| strips.row == STICK || !is_reused;
        self.strips().filter(is_near).or_else(|| self.packed(room))
    }

    /// Its numbers as strips that are one behind the other, if their format can be packed.
    pub(in crate::programs) fn packed(self, room: &mut Vec<f32>) -> Option<Strips> {
        with_stick_format!(self.format, F => Some(pack::<F>(self.sticks, room)), None)
    }

    /// Those of some rows.
    pub(in crate::programs) fn rows(self, first: usize, count: usize) -> TensorSticks<'a> {
        let [columns, _] = self.sticks.counts();
        Self { sticks: self.sticks.part([0, first], [columns, count]), ..self }
    }
}

fn pack<F: StickFormat>(sticks: DeviceSticks<'_>, room: &mut Vec<f32>) -> Strips {
    let [columns, rows] = sticks.counts();
    let target = lines(room, columns * rows * F::VECTORS * LANES);
    let first = target.as_ptr();
    let target = target.as_chunks_mut().0;
    run(Tier::detected(), Pack { sticks, target, format: PhantomData::<F> });
    Strips { first, row: STICK, strip: rows * STICK, columns: STICK }
}

struct Pack<'a, F> {
    sticks: DeviceSticks<'a>,
    target: &'a mut [[f32; LANES]],
    format: PhantomData<F>,
}

impl<F: StickFormat> Job for Pack<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(self) {
        const VECTORS: usize = STICK / LANES;
        let Self { sticks, target, .. } = self;
        let [_, rows] = sticks.counts();
        sticks.each::<1, 1>(
            #[inline(always)]
            |[column, row], stick| {
                for at in 0..F::VECTORS {
                    let strip = (column * F::VECTORS + at) / VECTORS;
                    let numbers = F::widened::<TIER>(stick.numbers([0, 0], at));
                    target[(strip * rows + row) * VECTORS + at % VECTORS] = numbers;
                }
            },
        );
    }
}
