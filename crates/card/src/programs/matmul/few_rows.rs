//! Products of few rows and a tensor whose columns lie in its sticks: each stick is widened where it lies.

use std::marker::PhantomData;

use spyre_artifact::Register;
use spyre_numerics::Tier;

use crate::memory::DeviceSticks;
use crate::programs::execute::vector::{Job, LANES, run};
use crate::programs::matmul::blocks::Factors;
use crate::programs::matmul::dot::FEW_ROWS;
use crate::programs::matmul::product::Product;
use crate::programs::matmul::stick_format::{StickFormat, with_stick_format};
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;

impl Machine<'_> {
    /// Adds a product of up to a few rows, if the right side lies in whole sticks of columns. Returns false, and adds
    /// nothing, if it does not. Each result is summed up in the order of k.
    pub(in crate::programs) fn add_few_rows(
        &mut self,
        target: Register,
        factors: Factors,
    ) -> Result<bool, Stop> {
        let counts = self.counts_of(factors.roles);
        if counts.rows > FEW_ROWS {
            return Ok(false);
        }
        let along = factors.along_right(false);
        let Some(right) = self.whole_sticks(factors.right, along, counts.columns) else {
            return Ok(false);
        };
        self.check_turn()?;
        let left = self.left::<f32>(factors.left, factors.roles)?;
        let mut sums = self.sums::<f32>(target, factors.roles);
        let rows = FewRows { a: &left.elements, k: counts.k, sums: &mut sums };
        let outcome = with_stick_format!(right.format, F => rows.add::<F>(right.sticks), Ok(false));
        self.put_back(left);
        self.put_sums(target, factors.roles, sums);
        outcome
    }
}

/// Rows of `k` numbers, and of their sums.
struct FewRows<'a> {
    a: &'a [f32],
    k: usize,
    sums: &'a mut [f32],
}

impl<'a> FewRows<'a> {
    fn add<F: StickFormat>(self, sticks: DeviceSticks<'a>) -> Result<bool, Stop> {
        run(Tier::detected(), AddRows { rows: self, sticks, format: PhantomData::<F> });
        Ok(true)
    }
}

/// Adds what columns of sticks give, of which each row has a factor in every row on the left.
struct AddRows<'a, F> {
    rows: FewRows<'a>,
    sticks: DeviceSticks<'a>,
    format: PhantomData<F>,
}

impl<F: StickFormat> Job for AddRows<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(self) {
        let count = self.rows.a.len() / self.rows.k;
        match (F::VECTORS, count) {
            (2, 1) => self.add::<TIER, 2, 1>(),
            (2, 2) => self.add::<TIER, 2, 2>(),
            (2, 3) => self.add::<TIER, 2, 3>(),
            (2, _) => self.add::<TIER, 2, 4>(),
            (_, 1) => self.add::<TIER, 4, 1>(),
            (_, 2) => self.add::<TIER, 4, 2>(),
            (_, 3) => self.add::<TIER, 4, 3>(),
            _ => self.add::<TIER, 4, 4>(),
        }
    }
}

impl<F: StickFormat> AddRows<'_, F> {
    /// Adds to `WIDE` vectors of each of `ROWS` rows at a time. Written with indices, which keep all sums in vector
    /// registers.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "iterators would go by way of memory")]
    fn add<const TIER: u8, const WIDE: usize, const ROWS: usize>(self) {
        let FewRows { a, k, sums } = self.rows;
        let a: [&[f32]; ROWS] = std::array::from_fn(|row| &a[row * k..][..k]);
        let columns = sums.len() / ROWS;
        for first in (0..columns).step_by(WIDE * LANES) {
            let stick = first / (F::VECTORS * LANES);
            let vector = first / LANES % F::VECTORS;
            let sticks = self.sticks.column(stick);
            let mut totals = [[[0.0; LANES]; WIDE]; ROWS];
            for row in 0..ROWS {
                let sums = &sums[row * columns + first..][..WIDE * LANES];
                totals[row].as_flattened_mut().copy_from_slice(sums);
            }
            for term in 0..k {
                sticks.prefetch_after(term);
                for nth in 0..WIDE {
                    let b = F::widened::<TIER>(sticks.numbers(term, vector + nth));
                    for row in 0..ROWS {
                        let factor = a[row][term];
                        for lane in 0..LANES {
                            let total = &mut totals[row][nth][lane];
                            *total = f32::fused(factor, b[lane], *total);
                        }
                    }
                }
            }
            for row in 0..ROWS {
                let sums = &mut sums[row * columns + first..][..WIDE * LANES];
                sums.copy_from_slice(totals[row].as_flattened());
            }
        }
    }
}
