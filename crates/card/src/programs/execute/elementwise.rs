//! Instructions on the elements of whole tiles. Each operation is its own loop over slices, so that the
//! compiler vectorises it.

use std::hint::select_unpredictable;

use spyre_artifact::{BinaryOp, CompareOp, Lane, Register, UnaryOp};
use spyre_hal::Fault;

use crate::programs::execute::buffer::Element;
use crate::programs::execute::extremes::NanWins;
use crate::programs::execute::functions::Functions;
use crate::programs::execute::tier_jobs;
use crate::programs::execute::vector::vectorised;
use crate::programs::math::integer::{gcd, power};
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;

/// A lane that operations take.
pub(in crate::programs) trait Arithmetic: Element {
    /// One value in, one out, in its place.
    fn unary(op: UnaryOp, values: impl Numbers<Self>) -> Result<(), Stop>;

    /// Two values in, one out.
    fn binary(op: BinaryOp, sources: [&[Self]; 2], target: &mut [Self]) -> Result<(), Stop>;
}

/// Numbers that a function changes, one by one.
pub(in crate::programs) trait Numbers<T> {
    fn change(self, act: impl Fn(T) -> T);

    /// Changes them in pieces: those whose numbers are all near by `near`, which is cheaper and has the same bits.
    fn change_in_pieces(
        self,
        is_near: impl Fn(T) -> bool,
        near: impl Fn(T) -> T,
        any: impl Fn(T) -> T,
    );
}

impl<T: Copy> Numbers<T> for &mut [T] {
    #[inline(always)]
    fn change(self, act: impl Fn(T) -> T) {
        for value in self {
            *value = act(*value);
        }
    }

    #[inline(always)]
    fn change_in_pieces(
        self,
        is_near: impl Fn(T) -> bool,
        near: impl Fn(T) -> T,
        any: impl Fn(T) -> T,
    ) {
        const PIECE: usize = 512;
        for values in self.chunks_mut(PIECE) {
            // Not `all`, which would branch at each one.
            if values.iter().fold(true, |are_near, &x| are_near & is_near(x)) {
                values.change(&near);
            } else {
                values.change(&any);
            }
        }
    }
}

impl Machine<'_> {
    pub(in crate::programs) fn unary(
        &mut self,
        op: UnaryOp,
        target: Register,
        source: Register,
    ) -> Result<(), Stop> {
        let registers = &mut self.registers;
        match (op, registers.type_of(source).lane) {
            (UnaryOp::IsNan, Lane::F32) => registers.map(target, source, truth(f32::is_nan)),
            (UnaryOp::IsNan, Lane::F64) => registers.map(target, source, truth(f64::is_nan)),
            (UnaryOp::IsInf, Lane::F32) => registers.map(target, source, truth(f32::is_infinite)),
            (UnaryOp::IsInf, Lane::F64) => registers.map(target, source, truth(f64::is_infinite)),
            (UnaryOp::SignBit, Lane::F32) => {
                registers.map(target, source, truth(f32::is_sign_negative))
            }
            (UnaryOp::SignBit, Lane::F64) => {
                registers.map(target, source, truth(f64::is_sign_negative))
            }
            (_, Lane::F32) => registers.change(target, source, tier_jobs::unary::<f32>(op)),
            (_, Lane::F64) => registers.change(target, source, tier_jobs::unary::<f64>(op)),
            (_, Lane::I64) => registers.change(target, source, tier_jobs::unary::<i64>(op)),
            _ => registers.change(target, source, tier_jobs::unary::<u8>(op)),
        }
    }

    pub(in crate::programs) fn binary(
        &mut self,
        op: BinaryOp,
        target: Register,
        left: Register,
        right: Register,
    ) -> Result<(), Stop> {
        let lane = self.registers.type_of(left).lane;
        let registers = &mut self.registers;
        let tiles = &self.tiles;
        let sources = [left, right];
        match lane {
            Lane::F32 => registers.join(tiles, target, sources, tier_jobs::binary::<f32>(op)),
            Lane::F64 => registers.join(tiles, target, sources, tier_jobs::binary::<f64>(op)),
            Lane::I64 => registers.join(tiles, target, sources, tier_jobs::binary::<i64>(op)),
            _ => registers.join(tiles, target, sources, tier_jobs::binary::<u8>(op)),
        }
    }

    pub(in crate::programs) fn compare(
        &mut self,
        op: CompareOp,
        target: Register,
        left: Register,
        right: Register,
    ) -> Result<(), Stop> {
        let lane = self.registers.type_of(left).lane;
        if lane == Lane::I64 && self.compare_by_rows(op, target, [left, right]) {
            return Ok(());
        }
        let registers = &mut self.registers;
        let tiles = &self.tiles;
        let sources = [left, right];
        match lane {
            Lane::F32 => registers.join(tiles, target, sources, tier_jobs::comparison::<f32>(op)),
            Lane::F64 => registers.join(tiles, target, sources, tier_jobs::comparison::<f64>(op)),
            Lane::I64 => registers.join(tiles, target, sources, tier_jobs::comparison::<i64>(op)),
            _ => registers.join(tiles, target, sources, tier_jobs::comparison::<u8>(op)),
        }
    }

    pub(in crate::programs) fn select(
        &mut self,
        target: Register,
        condition: Register,
        yes: Register,
        no: Register,
    ) -> Result<(), Stop> {
        match self.registers.type_of(yes).lane {
            Lane::F32 => self.select_as::<f32>(target, condition, yes, no),
            Lane::F64 => self.select_as::<f64>(target, condition, yes, no),
            Lane::I64 => self.select_as::<i64>(target, condition, yes, no),
            _ => self.select_as::<u8>(target, condition, yes, no),
        }
    }

    fn select_as<T: Element>(
        &mut self,
        target: Register,
        condition: Register,
        yes: Register,
        no: Register,
    ) -> Result<(), Stop> {
        let registers = &mut self.registers;
        let tiles = &self.tiles;
        registers.choose::<T>(tiles, target, condition, [yes, no], |chosen, sources, target| {
            vectorised(
                #[inline(always)]
                || choose(chosen, sources, target),
            );
        });
        Ok(())
    }
}

fn truth<T: Element>(test: fn(T) -> bool) -> impl Fn(&[T], &mut [u8]) -> Result<(), Stop> {
    move |source, target| {
        vectorised(
            #[inline(always)]
            || each(source, target, |value| test(value).into()),
        )
    }
}

// Written as loops: what iterators would do inside of closures of theirs is inlined only if it is
// short, and a call is no vector code.

#[inline(always)]
pub(in crate::programs) fn change<T>(
    values: impl Numbers<T>,
    act: impl Fn(T) -> T,
) -> Result<(), Stop> {
    values.change(act);
    Ok(())
}

#[inline(always)]
fn each<T: Copy, U: Element>(
    source: &[T],
    target: &mut [U],
    act: impl Fn(T) -> U,
) -> Result<(), Stop> {
    for (target, &value) in target.iter_mut().zip(source) {
        *target = act(value);
    }
    Ok(())
}

#[inline(always)]
pub(in crate::programs) fn both<T: Copy, U: Element>(
    [left, right]: [&[T]; 2],
    target: &mut [U],
    act: impl Fn(T, T) -> U,
) -> Result<(), Stop> {
    for ((target, &left), &right) in target.iter_mut().zip(left).zip(right) {
        *target = act(left, right);
    }
    Ok(())
}

#[inline(always)]
pub(in crate::programs) fn choose<T: Copy>(chosen: &[u8], [yes, no]: [&[T]; 2], target: &mut [T]) {
    for (((target, &yes), &no), &chosen) in target.iter_mut().zip(yes).zip(no).zip(chosen) {
        // Of a branch, the compiler makes a choice of addresses, and gathers from them.
        *target = select_unpredictable(chosen != 0, yes, no);
    }
}

#[inline(always)]
pub(in crate::programs) fn compare<T: Element>(
    op: CompareOp,
    sources: [&[T]; 2],
    target: &mut [u8],
) -> Result<(), Stop> {
    match op {
        CompareOp::Equal => both(sources, target, |a, b| (a == b).into()),
        CompareOp::NotEqual => both(sources, target, |a, b| (a != b).into()),
        CompareOp::Less => both(sources, target, |a, b| (a < b).into()),
        CompareOp::LessEqual => both(sources, target, |a, b| (a <= b).into()),
        CompareOp::Greater => both(sources, target, |a, b| (a > b).into()),
        CompareOp::GreaterEqual => both(sources, target, |a, b| (a >= b).into()),
        _ => Err(unknown(op.name())),
    }
}

macro_rules! float_arithmetic {
    ($type:ident) => {
        impl Arithmetic for $type {
            #[inline(always)]
            fn unary(op: UnaryOp, values: impl Numbers<Self>) -> Result<(), Stop> {
                match op {
                    UnaryOp::Neg => change(values, |x| -x),
                    UnaryOp::Abs => change(values, Self::abs),
                    UnaryOp::Sqrt => change(values, Self::sqrt),
                    UnaryOp::Rsqrt => change(values, |x| 1.0 / x.sqrt()),
                    UnaryOp::Reciprocal => change(values, |x| 1.0 / x),
                    UnaryOp::Floor => change(values, Self::floor),
                    UnaryOp::Ceil => change(values, Self::ceil),
                    UnaryOp::Round => change(values, Self::round_ties_even),
                    UnaryOp::Trunc => change(values, Self::trunc),
                    UnaryOp::Sign => change(values, |x| match x {
                        _ if x > 0.0 => 1.0,
                        _ if x < 0.0 => -1.0,
                        _ if x.is_nan() => x,
                        _ => 0.0,
                    }),
                    UnaryOp::Relu => change(values, |x| if x < 0.0 { 0.0 } else { x }),
                    _ => Self::function(op, values),
                }
            }

            #[inline(always)]
            fn binary(
                op: BinaryOp,
                sources: [&[Self]; 2],
                target: &mut [Self],
            ) -> Result<(), Stop> {
                match op {
                    BinaryOp::Add => both(sources, target, |a, b| a + b),
                    BinaryOp::Sub => both(sources, target, |a, b| a - b),
                    BinaryOp::Mul => both(sources, target, |a, b| a * b),
                    BinaryOp::Div => both(sources, target, |a, b| a / b),
                    BinaryOp::Min => both(sources, target, $type::smaller),
                    BinaryOp::Max => both(sources, target, $type::larger),
                    BinaryOp::Rem => both(sources, target, |a, b| a % b),
                    BinaryOp::FloorDiv => both(sources, target, |a, b| {
                        if b == 0.0 {
                            return a / b;
                        }
                        let rest = a % b;
                        let quotient = (a - rest) / b;
                        let is_low = rest != 0.0 && (rest < 0.0) != (b < 0.0);
                        let quotient = if is_low { quotient - 1.0 } else { quotient };
                        if quotient == 0.0 {
                            Self::copysign(0.0, a / b)
                        } else {
                            // The subtraction may have rounded: the whole number is the nearest.
                            quotient.round_ties_even()
                        }
                    }),
                    BinaryOp::Modulo => both(sources, target, |a, b| {
                        let rest = a % b;
                        let is_low = rest != 0.0 && (rest < 0.0) != (b < 0.0);
                        if is_low { rest + b } else { rest }
                    }),
                    BinaryOp::CopySign => both(sources, target, Self::copysign),
                    BinaryOp::Fmin => both(sources, target, Self::min),
                    BinaryOp::Fmax => both(sources, target, Self::max),
                    _ => Self::function_of_two(op, sources, target),
                }
            }
        }
    };
}

float_arithmetic!(f32);
float_arithmetic!(f64);

impl Arithmetic for i64 {
    #[inline(always)]
    fn unary(op: UnaryOp, values: impl Numbers<Self>) -> Result<(), Stop> {
        match op {
            UnaryOp::Neg => change(values, Self::wrapping_neg),
            UnaryOp::Abs => change(values, Self::wrapping_abs),
            UnaryOp::Sign => change(values, Self::signum),
            UnaryOp::BitNot => change(values, |x| !x),
            UnaryOp::Relu => change(values, |x| x.max(0)),
            _ => Err(unknown(op.name())),
        }
    }

    #[inline(always)]
    fn binary(op: BinaryOp, sources: [&[Self]; 2], target: &mut [Self]) -> Result<(), Stop> {
        let divides =
            matches!(op, BinaryOp::Div | BinaryOp::Rem | BinaryOp::FloorDiv | BinaryOp::Modulo);
        if divides && sources[1].contains(&0) {
            return Err(Fault::DivisionByZero.into());
        }
        match op {
            BinaryOp::Add => both(sources, target, Self::wrapping_add),
            BinaryOp::Sub => both(sources, target, Self::wrapping_sub),
            BinaryOp::Mul => both(sources, target, Self::wrapping_mul),
            BinaryOp::Div => both(sources, target, Self::wrapping_div),
            BinaryOp::Min => both(sources, target, Ord::min),
            BinaryOp::Max => both(sources, target, Ord::max),
            BinaryOp::Pow => both(sources, target, power),
            BinaryOp::Gcd => both(sources, target, gcd),
            BinaryOp::Rem => both(sources, target, Self::wrapping_rem),
            BinaryOp::FloorDiv => both(sources, target, |a, b| {
                let rest = a.wrapping_rem(b);
                let is_low = rest != 0 && (rest < 0) != (b < 0);
                a.wrapping_div(b).wrapping_sub(is_low.into())
            }),
            BinaryOp::Modulo => both(sources, target, |a, b| {
                let rest = a.wrapping_rem(b);
                let is_low = rest != 0 && (rest < 0) != (b < 0);
                if is_low { rest.wrapping_add(b) } else { rest }
            }),
            BinaryOp::And => both(sources, target, |a, b| a & b),
            BinaryOp::Or => both(sources, target, |a, b| a | b),
            BinaryOp::Xor => both(sources, target, |a, b| a ^ b),
            BinaryOp::ShiftLeft => both(sources, target, |a, b| match b {
                0..64 => a << b,
                _ => 0,
            }),
            BinaryOp::ShiftRight => both(sources, target, |a, b| match b {
                0..64 => a >> b,
                _ => a >> 63,
            }),
            _ => Err(unknown(op.name())),
        }
    }
}

impl Arithmetic for u8 {
    #[inline(always)]
    fn unary(op: UnaryOp, values: impl Numbers<Self>) -> Result<(), Stop> {
        match op {
            UnaryOp::Not => change(values, |x| x ^ 1),
            _ => Err(unknown(op.name())),
        }
    }

    #[inline(always)]
    fn binary(op: BinaryOp, sources: [&[Self]; 2], target: &mut [Self]) -> Result<(), Stop> {
        match op {
            BinaryOp::And => both(sources, target, |a, b| a & b),
            BinaryOp::Or => both(sources, target, |a, b| a | b),
            BinaryOp::Xor => both(sources, target, |a, b| a ^ b),
            _ => Err(unknown(op.name())),
        }
    }
}

pub(in crate::programs) fn unknown(op: &str) -> Stop {
    Stop::refused(format!("{op} is not for this lane"))
}
