use spyre_artifact::{Dim, Lane, Register, ScanOp};
use spyre_numerics::Tier;

use crate::programs::execute::buffer::Element;
use crate::programs::execute::dim_walk::DimWalk;
use crate::programs::execute::extremes::NanWins;
use crate::programs::execute::vector::{Job, run};
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;

/// An element, and what it is carried along as.
trait Carried<C>: Element {
    fn wide(self) -> C;
    fn narrow(carried: C) -> Self;
}

macro_rules! carried {
    ($element:ty as $carry:ty) => {
        impl Carried<$carry> for $element {
            #[inline(always)]
            fn wide(self) -> $carry {
                self.into()
            }

            #[inline(always)]
            fn narrow(carried: $carry) -> Self {
                carried as Self
            }
        }
    };
}

carried!(f32 as f32);
carried!(f32 as f64);
carried!(f64 as f64);
carried!(i64 as i64);

impl Machine<'_> {
    pub(in crate::programs) fn scan(
        &mut self,
        op: ScanOp,
        target: Register,
        source: Register,
        carry: Register,
        dim: Dim,
    ) -> Result<(), Stop> {
        let lanes = [source, carry].map(|register| self.registers.type_of(register).lane);
        let places = [target, source, carry];
        macro_rules! floats {
            ($element:ty, $carry:ty) => {
                match op {
                    ScanOp::Sum => self.carry::<$element, $carry>(places, dim, |a, b| a + b),
                    ScanOp::Product => self.carry::<$element, $carry>(places, dim, |a, b| a * b),
                    ScanOp::Min => self.carry::<$element, $carry>(places, dim, NanWins::smaller),
                    ScanOp::Max => self.carry::<$element, $carry>(places, dim, NanWins::larger),
                    ScanOp::LogSumExp => self.carry::<$element, $carry>(places, dim, |a, b| {
                        log_add_exp(a.into(), b.into()) as $carry
                    }),
                    _ => return Err(unknown(op, lanes[0])),
                }
            };
        }
        match (lanes, op) {
            ([Lane::F32, Lane::F32], _) => floats!(f32, f32),
            ([Lane::F32, Lane::F64], _) => floats!(f32, f64),
            ([Lane::F64, Lane::F64], _) => floats!(f64, f64),
            (_, ScanOp::Sum) => self.carry::<i64, i64>(places, dim, i64::wrapping_add),
            (_, ScanOp::Product) => self.carry::<i64, i64>(places, dim, i64::wrapping_mul),
            (_, ScanOp::Min) => self.carry::<i64, i64>(places, dim, i64::min),
            (_, ScanOp::Max) => self.carry::<i64, i64>(places, dim, i64::max),
            ([lane, _], _) => return Err(unknown(op, lane)),
        }
        Ok(())
    }

    fn carry<T: Carried<C>, C: Element>(
        &mut self,
        [target, source, carry]: [Register; 3],
        dim: Dim,
        act: impl Fn(C, C) -> C + Copy,
    ) {
        let along = DimWalk::of(&self.tiles, self.registers.type_of(source).span, dim);
        let mut result = self.registers.take::<T>();
        let mut held = self.registers.take_from(carry);
        result.clear();
        let elements = T::of(self.registers.tile(source));
        let job = Scan { elements, along, held: &mut held, result: &mut result, act };
        run(Tier::detected(), job);
        self.registers.put(carry, held);
        self.registers.put(target, result);
    }
}

fn unknown(op: ScanOp, lane: Lane) -> Stop {
    Stop::refused(format!("{op} is not for {lane}"))
}

/// Scan of rows: for each element, the result of all elements up to it.
struct Scan<'a, T, C, F> {
    elements: &'a [T],
    along: DimWalk,
    held: &'a mut [C],
    result: &'a mut Vec<T>,
    act: F,
}

impl<T: Carried<C>, C: Copy, F: Fn(C, C) -> C> Job for Scan<'_, T, C, F> {
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(self) {
        let Self { elements, along, held, result, act } = self;
        // They are replaced one by one: a plain loop keeps what it carries in a register.
        result.extend_from_slice(elements);
        if elements.is_empty() {
            return;
        }
        let blocks = result.chunks_exact_mut(along.block());
        for (block, held) in blocks.zip(held.chunks_exact_mut(along.row)) {
            if let [held] = held {
                let mut carried = *held;
                for element in block {
                    carried = act(carried, element.wide());
                    *element = T::narrow(carried);
                }
                *held = carried;
                continue;
            }
            for row in block.chunks_exact_mut(along.row) {
                for (element, held) in row.iter_mut().zip(&mut *held) {
                    *held = act(*held, element.wide());
                    *element = T::narrow(*held);
                }
            }
        }
    }
}

/// The logarithm of the sum of two numbers that are given by their logarithms.
fn log_add_exp(a: f64, b: f64) -> f64 {
    let least = a.smaller(b);
    let most = a.larger(b);
    if least == most && least.is_infinite() { most } else { most + (least - most).exp().ln_1p() }
}
