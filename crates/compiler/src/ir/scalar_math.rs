//! One element at a time. Floats are computed in f64 and rounded to their lane: what the card's own
//! arithmetic is compared with, and none of it.
//!
//! Arithmetic is exact, so results are equal. Functions are the host library's, which the card's may
//! differ from in the last place; only special functions are shared with it, and have tables of their
//! own to be compared with.

use std::cmp::Ordering;

use spyre_artifact::{BinaryOp, CompareOp, Constant, Lane, ReduceOp, UnaryOp};
use spyre_numerics::{DType, Scalar};

use super::functions;

/// A value of its lane.
pub(super) fn in_lane(lane: Lane, value: f64) -> Constant {
    match lane {
        Lane::F32 => Constant::Float(f64::from(value as f32)),
        _ => Constant::Float(value),
    }
}

/// `None` if the operation does not take it.
pub(super) fn unary(op: UnaryOp, lane: Lane, source: Constant) -> Option<Constant> {
    match source {
        Constant::Float(x) => float_unary(op, lane, x),
        Constant::Int(x) => Some(Constant::Int(match op {
            UnaryOp::Neg => x.wrapping_neg(),
            UnaryOp::Abs => x.wrapping_abs(),
            UnaryOp::Sign => x.signum(),
            UnaryOp::BitNot => !x,
            UnaryOp::Relu => x.max(0),
            _ => return None,
        })),
        Constant::Bool(x) => (op == UnaryOp::Not).then_some(Constant::Bool(!x)),
    }
}

fn float_unary(op: UnaryOp, lane: Lane, x: f64) -> Option<Constant> {
    let result = match op {
        UnaryOp::IsNan => return Some(Constant::Bool(x.is_nan())),
        UnaryOp::IsInf => return Some(Constant::Bool(x.is_infinite())),
        UnaryOp::Neg => -x,
        UnaryOp::Abs => x.abs(),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Rsqrt => x.sqrt().recip(),
        UnaryOp::Reciprocal => x.recip(),
        UnaryOp::Exp => x.exp(),
        UnaryOp::Log => x.ln(),
        UnaryOp::Tanh => x.tanh(),
        UnaryOp::Sin => x.sin(),
        UnaryOp::Cos => x.cos(),
        UnaryOp::Erf => libm::erf(x),
        UnaryOp::Floor => x.floor(),
        UnaryOp::Ceil => x.ceil(),
        UnaryOp::Round => x.round_ties_even(),
        UnaryOp::Trunc => x.trunc(),
        UnaryOp::Sign if x == 0.0 => 0.0,
        UnaryOp::Sign if x.is_nan() => x,
        UnaryOp::Sign => x.signum(),
        UnaryOp::Relu if x < 0.0 => 0.0,
        UnaryOp::Relu => x,
        UnaryOp::Exp2 => x.exp2(),
        UnaryOp::Expm1 => x.exp_m1(),
        UnaryOp::Log2 => x.log2(),
        UnaryOp::Log10 => x.log10(),
        UnaryOp::Log1p => x.ln_1p(),
        UnaryOp::Tan => x.tan(),
        UnaryOp::Asin => x.asin(),
        UnaryOp::Acos => x.acos(),
        UnaryOp::Atan => x.atan(),
        UnaryOp::Sinh => x.sinh(),
        UnaryOp::Cosh => x.cosh(),
        UnaryOp::Sigmoid => (1.0 + (-x).exp()).recip(),
        UnaryOp::SignBit => return Some(Constant::Bool(x.is_sign_negative())),
        _ => functions::unary(op)?(x),
    };
    Some(in_lane(lane, result))
}

/// `None` if the operation does not take them; division of integers by zero is one such.
pub(super) fn binary(
    op: BinaryOp,
    lane: Lane,
    left: Constant,
    right: Constant,
) -> Option<Constant> {
    match (left, right) {
        (Constant::Float(a), Constant::Float(b)) => {
            let result = match (op, lane) {
                // The only one that depends on how wide a float is.
                (BinaryOp::NextAfter, Lane::F32) => libm::nextafterf(a as f32, b as f32).into(),
                _ => float_binary(op, a, b)?,
            };
            Some(in_lane(lane, result))
        }
        (Constant::Int(a), Constant::Int(b)) => Some(Constant::Int(int_binary(op, a, b)?)),
        (Constant::Bool(a), Constant::Bool(b)) => Some(Constant::Bool(match op {
            BinaryOp::And => a & b,
            BinaryOp::Or => a | b,
            BinaryOp::Xor => a ^ b,
            _ => return None,
        })),
        _ => None,
    }
}

fn float_binary(op: BinaryOp, a: f64, b: f64) -> Option<f64> {
    Some(match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        BinaryOp::Min | BinaryOp::Max if a.is_nan() || b.is_nan() => f64::NAN,
        BinaryOp::Min | BinaryOp::Fmin => a.min(b),
        BinaryOp::Max | BinaryOp::Fmax => a.max(b),
        BinaryOp::Pow => a.powf(b),
        BinaryOp::Rem => a % b,
        BinaryOp::FloorDiv if b == 0.0 => a / b,
        BinaryOp::FloorDiv => ((a - modulo(a, b)) / b).round_ties_even(),
        BinaryOp::Modulo => modulo(a, b),
        BinaryOp::Atan2 => a.atan2(b),
        BinaryOp::CopySign => a.copysign(b),
        _ => functions::binary(op)?(a, b),
    })
}

/// Remainder of a division that rounds down.
fn modulo(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}

fn int_binary(op: BinaryOp, a: i64, b: i64) -> Option<i64> {
    let divides =
        matches!(op, BinaryOp::Div | BinaryOp::Rem | BinaryOp::FloorDiv | BinaryOp::Modulo);
    if divides && b == 0 {
        return None;
    }
    let shift = u32::try_from(b).ok().filter(|&bits| bits < 64);
    Some(match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Div => a.wrapping_div(b),
        BinaryOp::Rem => a.wrapping_rem(b),
        BinaryOp::FloorDiv => {
            let is_low = a.wrapping_rem(b) != 0 && (a < 0) != (b < 0);
            a.wrapping_div(b).wrapping_sub(is_low.into())
        }
        BinaryOp::Modulo => {
            let rest = a.wrapping_rem(b);
            if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
        }
        BinaryOp::Min => a.min(b),
        BinaryOp::Max => a.max(b),
        BinaryOp::Pow => power(a, b),
        BinaryOp::Gcd => functions::gcd(a, b),
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::ShiftLeft => shift.map_or(0, |bits| a << bits),
        BinaryOp::ShiftRight => shift.map_or(a >> 63, |bits| a >> bits),
        _ => return None,
    })
}

/// Power of integers as PyTorch has it: with a negative exponent it is zero, but for bases of one and
/// minus one.
fn power(base: i64, exponent: i64) -> i64 {
    match (base, exponent) {
        (1, _) => 1,
        (-1, _) => {
            if exponent % 2 == 0 {
                1
            } else {
                -1
            }
        }
        (_, ..0) => 0,
        _ => {
            let mut result = 1_i64;
            let mut square = base;
            let mut rest = exponent;
            while rest > 0 {
                if rest % 2 == 1 {
                    result = result.wrapping_mul(square);
                }
                square = square.wrapping_mul(square);
                rest /= 2;
            }
            result
        }
    }
}

pub(super) fn compare(op: CompareOp, left: Constant, right: Constant) -> bool {
    let order = match (left, right) {
        (Constant::Float(a), Constant::Float(b)) => a.partial_cmp(&b),
        (Constant::Int(a), Constant::Int(b)) => Some(a.cmp(&b)),
        (Constant::Bool(a), Constant::Bool(b)) => Some(a.cmp(&b)),
        _ => None,
    };
    match op {
        CompareOp::Equal => order == Some(Ordering::Equal),
        CompareOp::NotEqual => order != Some(Ordering::Equal),
        CompareOp::Less => order == Some(Ordering::Less),
        CompareOp::LessEqual => order.is_some_and(Ordering::is_le),
        CompareOp::Greater => order == Some(Ordering::Greater),
        CompareOp::GreaterEqual => order.is_some_and(Ordering::is_ge),
        _ => false,
    }
}

/// Converts a number from lane to lane, as PyTorch casts.
pub(super) fn convert(lane: Lane, source: Constant) -> Constant {
    match (lane, source) {
        (Lane::F32 | Lane::F64, Constant::Float(value)) => in_lane(lane, value),
        (Lane::F32, Constant::Int(value)) => Constant::Float(f64::from(value as f32)),
        (Lane::F64, Constant::Int(value)) => Constant::Float(value as f64),
        (Lane::F32 | Lane::F64, Constant::Bool(value)) => Constant::Float(value.into()),
        (Lane::I64, Constant::Float(value)) => Constant::Int(truncated(value)),
        (Lane::I64, Constant::Int(value)) => Constant::Int(value),
        (Lane::I64, Constant::Bool(value)) => Constant::Int(value.into()),
        (Lane::Bool, Constant::Float(value)) => Constant::Bool(value != 0.0),
        (Lane::Bool, Constant::Int(value)) => Constant::Bool(value != 0),
        (_, value) => value,
    }
}

/// Truncates as x86 does: a number that does not fit becomes the smallest one.
fn truncated(value: f64) -> i64 {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value);
    if fits { value as i64 } else { i64::MIN }
}

/// Returns what a store as `dtype` and a load give.
pub(super) fn round(dtype: DType, lane: Lane, value: Constant) -> Option<Constant> {
    let scalar = match (lane, value) {
        (Lane::F32, Constant::Float(value)) => Scalar::Single(value as f32),
        (_, Constant::Float(value)) => Scalar::Double(value),
        (_, Constant::Int(value)) => Scalar::Signed(value),
        (_, Constant::Bool(value)) => Scalar::Signed(value.into()),
    };
    let format = dtype.host_format();
    let back = Scalar::decode(format, &scalar.encode(format).ok()?).ok()?;
    Some(match lane {
        Lane::F32 | Lane::F64 => Constant::Float(back.to_f64()),
        Lane::Bool => Constant::Bool(back.is_nonzero()),
        _ => match back {
            Scalar::Signed(value) => Constant::Int(value),
            Scalar::Unsigned(value) => Constant::Int(value.cast_signed()),
            _ => return None,
        },
    })
}

/// Result of a reduction of no elements.
pub(crate) fn neutral(op: ReduceOp, lane: Lane) -> Option<Constant> {
    let is_float = lane.is_float();
    Some(match op {
        ReduceOp::Sum if is_float => Constant::Float(0.0),
        ReduceOp::Sum => Constant::Int(0),
        ReduceOp::Product if is_float => Constant::Float(1.0),
        ReduceOp::Product => Constant::Int(1),
        ReduceOp::Min if is_float => Constant::Float(f64::INFINITY),
        ReduceOp::Min => Constant::Int(i64::MAX),
        ReduceOp::Max if is_float => Constant::Float(f64::NEG_INFINITY),
        ReduceOp::Max => Constant::Int(i64::MIN),
        ReduceOp::Any => Constant::Bool(false),
        ReduceOp::All => Constant::Bool(true),
        _ => return None,
    })
}

/// One step of a reduction, in f64 whatever the lane.
pub(super) fn step(op: ReduceOp) -> Option<BinaryOp> {
    Some(match op {
        ReduceOp::Sum => BinaryOp::Add,
        ReduceOp::Product => BinaryOp::Mul,
        ReduceOp::Min => BinaryOp::Min,
        ReduceOp::Max => BinaryOp::Max,
        ReduceOp::Any => BinaryOp::Or,
        ReduceOp::All => BinaryOp::And,
        _ => return None,
    })
}

/// The order of sorts: NaN is larger than everything.
pub(super) fn sort_order(left: Constant, right: Constant) -> Ordering {
    match (left, right) {
        (Constant::Float(a), Constant::Float(b)) => {
            a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }
        (Constant::Int(a), Constant::Int(b)) => a.cmp(&b),
        (Constant::Bool(a), Constant::Bool(b)) => a.cmp(&b),
        _ => Ordering::Equal,
    }
}
