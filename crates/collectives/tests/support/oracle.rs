//! Reductions in the plainest way: one element after the other, one rank after the other.

use half::{bf16, f16};
use spyre_collectives::ReduceOp;
use spyre_numerics::{DataFormat, Sen169};

/// Formats that are reduced.
pub(crate) const FORMATS: [DataFormat; 11] = [
    DataFormat::IeeeFp64,
    DataFormat::IeeeFp32,
    DataFormat::IeeeFp16,
    DataFormat::BFloat16,
    DataFormat::Sen169Fp16,
    DataFormat::IeeeInt64,
    DataFormat::IeeeInt32,
    DataFormat::SenInt16,
    DataFormat::SenInt8,
    DataFormat::UInt8,
    DataFormat::Bool,
];

/// Every reduction.
pub(crate) const OPS: [ReduceOp; 9] = [
    ReduceOp::Sum,
    ReduceOp::Avg,
    ReduceOp::Product,
    ReduceOp::Min,
    ReduceOp::Max,
    ReduceOp::BitAnd,
    ReduceOp::BitOr,
    ReduceOp::BitXor,
    ReduceOp::PremulSum(0.3),
];

pub(crate) fn is_float(format: DataFormat) -> bool {
    FORMATS[..5].contains(&format)
}

/// Returns true if the reduction is defined.
pub(crate) fn is_defined(op: ReduceOp, format: DataFormat) -> bool {
    match op {
        ReduceOp::BitAnd | ReduceOp::BitOr | ReduceOp::BitXor => !is_float(format),
        ReduceOp::PremulSum(_) => is_float(format),
        ReduceOp::Avg => format != DataFormat::Bool,
        _ => true,
    }
}

/// Elements that depend on a seed only.
pub(crate) fn elements(format: DataFormat, count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes = Vec::with_capacity(count * 8);
    for _ in 0..count {
        let bits = next();
        let real = (bits >> 20) as f64 / f64::from(1 << 24) / f64::from(1 << 20) * 8.0 - 4.0;
        if is_float(format) {
            bytes.extend(encode_float(format, real));
        } else if format == DataFormat::Bool {
            bytes.push((bits >> 60 & 1) as u8);
        } else {
            bytes.extend(&bits.to_le_bytes()[..format.element_bytes().expect("whole bytes")]);
        }
    }
    bytes
}

/// The reduction of the ranks' elements.
pub(crate) fn reduce(op: ReduceOp, format: DataFormat, ranks: &[Vec<u8>]) -> Vec<u8> {
    let width = format.element_bytes().expect("whole bytes");
    let mut result = Vec::with_capacity(ranks[0].len());
    for at in (0..ranks[0].len()).step_by(width) {
        let elements = ranks.iter().map(|rank| &rank[at..at + width]);
        if is_float(format) {
            result.extend(reduce_floats(op, format, elements));
        } else {
            result.extend(reduce_integers(op, format, elements));
        }
    }
    result
}

fn reduce_floats<'a>(
    op: ReduceOp,
    format: DataFormat,
    elements: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let is_double = format == DataFormat::IeeeFp64;
    let count = elements.len() as f64;
    // Sums of `f32` are those of `f64`, rounded: 53 bits are more than twice 24 and two.
    let round = |value: f64| if is_double { value } else { f64::from(value as f32) };
    let scaled = |value: f64| match op {
        ReduceOp::PremulSum(factor) => round(value * round(factor)),
        _ => value,
    };
    let mut values = elements.map(|element| scaled(decode_float(format, element)));
    let first = values.next().expect("a rank");
    let total = values.fold(first, |a, b| match op {
        ReduceOp::Product => round(a * b),
        ReduceOp::Min => a.min(b),
        ReduceOp::Max => a.max(b),
        _ => round(a + b),
    });
    let total = if op == ReduceOp::Avg { round(total / count) } else { total };
    encode_float(format, total)
}

fn reduce_integers<'a>(
    op: ReduceOp,
    format: DataFormat,
    elements: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let width = format.element_bytes().expect("whole bytes");
    let count = elements.len() as i128;
    let is_bool = format == DataFormat::Bool;
    let mut values = elements.map(|element| decode_integer(format, element));
    let first = values.next().expect("a rank");
    let total = values.fold(first, |a, b| match op {
        ReduceOp::Product => a.wrapping_mul(b),
        ReduceOp::Min => a.min(b),
        ReduceOp::Max => a.max(b),
        ReduceOp::BitAnd => a & b,
        ReduceOp::BitOr => a | b,
        ReduceOp::BitXor => a ^ b,
        _ if is_bool => a | b,
        _ => a.wrapping_add(b),
    });
    let wrapped = decode_integer(format, &total.to_le_bytes()[..width]);
    let total = if op == ReduceOp::Avg { wrapped / count } else { wrapped };
    total.to_le_bytes()[..width].to_vec()
}

fn decode_integer(format: DataFormat, bytes: &[u8]) -> i128 {
    let is_unsigned = matches!(format, DataFormat::UInt8 | DataFormat::Bool);
    let is_negative = !is_unsigned && bytes[bytes.len() - 1] & 0x80 != 0;
    let mut wide = [if is_negative { 0xFF } else { 0 }; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(wide)
}

fn decode_float(format: DataFormat, bytes: &[u8]) -> f64 {
    let short = || u16::from_le_bytes([bytes[0], bytes[1]]);
    match format {
        DataFormat::IeeeFp64 => f64::from_le_bytes(bytes.try_into().expect("8 bytes")),
        DataFormat::IeeeFp32 => f32::from_le_bytes(bytes.try_into().expect("4 bytes")).into(),
        DataFormat::IeeeFp16 => f16::from_bits(short()).into(),
        DataFormat::BFloat16 => bf16::from_bits(short()).into(),
        _ => Sen169::from_bits(short()).to_ordered_f32().into(),
    }
}

fn encode_float(format: DataFormat, value: f64) -> Vec<u8> {
    match format {
        DataFormat::IeeeFp64 => value.to_le_bytes().to_vec(),
        DataFormat::IeeeFp32 => (value as f32).to_le_bytes().to_vec(),
        DataFormat::IeeeFp16 => f16::from_f32(value as f32).to_le_bytes().to_vec(),
        DataFormat::BFloat16 => bf16::from_f32(value as f32).to_le_bytes().to_vec(),
        _ => Sen169::from_computed(value as f32).to_bits().to_le_bytes().to_vec(),
    }
}
