use std::convert::Infallible;

use spyre_artifact::{Lane, ReduceOp, Register};
use spyre_numerics::Tier;

use super::Stop;
use super::buffer::Element;
use super::elementwise::NanWins;
use super::machine::Machine;
use super::nest::Nest;
use super::tiles::dims;
use super::vector::{Job, run};

/// Partial results of one row: as many as keep vector units busy. The order is fixed, and so is
/// the result.
pub(super) const LANES: usize = 16;

impl Machine<'_> {
    pub(super) fn reduce(
        &mut self,
        op: ReduceOp,
        target: Register,
        source: Register,
    ) -> Result<(), Stop> {
        match (self.registers.type_of(source).lane, op) {
            // -0 leaves every number as it is, 0 does not.
            (Lane::F32, ReduceOp::Sum) => self.fold(target, source, -0.0_f32, |a, b| a + b),
            (Lane::F32, ReduceOp::Product) => self.fold(target, source, 1.0_f32, |a, b| a * b),
            (Lane::F32, ReduceOp::Min) => {
                self.fold(target, source, f32::INFINITY, NanWins::smaller)
            }
            (Lane::F32, ReduceOp::Max) => {
                self.fold(target, source, f32::NEG_INFINITY, NanWins::larger)
            }
            (Lane::F64, ReduceOp::Sum) => self.fold(target, source, -0.0_f64, |a, b| a + b),
            (Lane::F64, ReduceOp::Product) => self.fold(target, source, 1.0_f64, |a, b| a * b),
            (Lane::F64, ReduceOp::Min) => {
                self.fold(target, source, f64::INFINITY, NanWins::smaller)
            }
            (Lane::F64, ReduceOp::Max) => {
                self.fold(target, source, f64::NEG_INFINITY, NanWins::larger)
            }
            (Lane::I64, ReduceOp::Sum) => self.fold(target, source, 0, i64::wrapping_add),
            (Lane::I64, ReduceOp::Product) => self.fold(target, source, 1, i64::wrapping_mul),
            (Lane::I64, ReduceOp::Min) => self.fold(target, source, i64::MAX, i64::min),
            (Lane::I64, ReduceOp::Max) => self.fold(target, source, i64::MIN, i64::max),
            (Lane::Bool, ReduceOp::Any) => self.fold(target, source, 0, |a: u8, b| a | b),
            (Lane::Bool, ReduceOp::All) => self.fold(target, source, 1, |a: u8, b| a & b),
            (lane, _) => Err(Stop::refused(format!("{op} is not for {lane}"))),
        }
    }

    fn fold<T: Element>(
        &mut self,
        target: Register,
        source: Register,
        neutral: T,
        act: impl Fn(T, T) -> T + Copy,
    ) -> Result<(), Stop> {
        let spans = [target, source].map(|register| self.registers.type_of(register).span);
        let nest = self.tiles.nest(spans[0], dims(spans[1]));
        let mut held = self.registers.take_from(target);
        let elements = T::of(self.registers.tile(source));
        let job = Fold { nest, held: &mut held, elements, neutral, act };
        run(Tier::detected(), job);
        self.registers.put(target, held);
        Ok(())
    }
}

/// Elements combined into what is held, row by row.
struct Fold<'a, T, F> {
    /// How the elements meet what is held.
    nest: Nest,
    held: &'a mut [T],
    elements: &'a [T],
    neutral: T,
    act: F,
}

impl<T: Element, F: Fn(T, T) -> T + Copy> Job for Fold<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(self) {
        let Self { nest, held, elements: mut rest, neutral, act } = self;
        let folded = nest.each_row(0, |row| {
            let (start, stride) = (row.start as usize, row.stride as usize);
            let (now, later) = rest.split_at(row.elements);
            rest = later;
            match stride {
                0 => held[start] = act(held[start], fold_row(now, neutral, act)),
                1 => held[start..].iter_mut().zip(now).for_each(|(h, &x)| *h = act(*h, x)),
                _ => {
                    let held = held[start..].iter_mut().step_by(stride);
                    held.zip(now).for_each(|(h, &x)| *h = act(*h, x));
                }
            }
            Ok::<(), Infallible>(())
        });
        let Ok(()) = folded;
    }
}

/// A row as one value.
#[inline(always)]
pub(super) fn fold_row<T: Copy>(row: &[T], neutral: T, act: impl Fn(T, T) -> T) -> T {
    let (chunks, rest) = row.as_chunks::<LANES>();
    let mut lanes = [neutral; LANES];
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = act(*lane, value);
        }
    }
    fold_lanes(&mut lanes, rest, act)
}

/// What is left of a row, and then all lanes, as one value. Not inlined: the compiler would take the
/// lanes apart for it, in the loop before, too.
#[inline(never)]
fn fold_lanes<T: Copy>(lanes: &mut [T; LANES], rest: &[T], act: impl Fn(T, T) -> T) -> T {
    for (lane, &value) in lanes.iter_mut().zip(rest) {
        *lane = act(*lane, value);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for at in 0..width {
            lanes[at] = act(lanes[at], lanes[at + width]);
        }
        width /= 2;
    }
    lanes[0]
}
