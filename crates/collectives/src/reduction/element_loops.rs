//! Loops over elements, which the compiler vectorises.

use std::fmt;

use spyre_numerics::DataFormat;

use crate::ReduceOp;

/// Loops of one reduction over one format.
#[derive(Clone, Copy)]
pub(super) struct ElementLoops {
    /// Makes the first rank's elements an accumulator.
    pub(super) start: fn(&mut [u8], f64),
    /// Combines an accumulator with the next elements.
    pub(super) add: fn(&mut [u8], &[u8], f64),
    /// Divides an accumulator.
    pub(super) divide: fn(&mut [u8], u64),
}

impl fmt::Debug for ElementLoops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ElementLoops")
    }
}

const NO_FLOAT_BITS: &str = "bitwise reductions are for integers and booleans";
const NO_INTEGER_FACTOR: &str = "PREMUL_SUM is for floats; multiply before a SUM";
const NO_BOOL_AVERAGE: &str = "convert to a float format first, or ask for MAX or MIN";
const NO_ARITHMETIC: &str = "convert to float32 first";

impl ElementLoops {
    pub(super) fn new(op: ReduceOp, format: DataFormat) -> Result<Self, &'static str> {
        match format {
            DataFormat::IeeeFp32 => float32(op),
            DataFormat::IeeeFp64 => float64(op),
            DataFormat::SenInt8 => int8(op),
            DataFormat::UInt8 => uint8(op),
            DataFormat::SenInt16 => int16(op),
            DataFormat::UInt16 => uint16(op),
            DataFormat::IeeeInt32 => int32(op),
            DataFormat::SenUInt32 => uint32(op),
            DataFormat::IeeeInt64 => int64(op),
            DataFormat::UInt64 => uint64(op),
            DataFormat::Bool => boolean(op),
            _ => Err(NO_ARITHMETIC),
        }
    }

    fn of(add: fn(&mut [u8], &[u8], f64)) -> Self {
        Self { start: |_, _| {}, add, divide: |_, _| {} }
    }
}

/// Loops over numbers of one type.
macro_rules! loops {
    ($number:ty) => {
        const BYTES: usize = size_of::<$number>();

        fn zip(a: &mut [u8], b: &[u8], combine: impl Fn($number, $number) -> $number) {
            let (b, _) = b.as_chunks::<BYTES>();
            for (a, b) in a.as_chunks_mut::<BYTES>().0.iter_mut().zip(b) {
                let result = combine(<$number>::from_le_bytes(*a), <$number>::from_le_bytes(*b));
                *a = result.to_le_bytes();
            }
        }

        fn map(a: &mut [u8], change: impl Fn($number) -> $number) {
            for a in a.as_chunks_mut::<BYTES>().0 {
                *a = change(<$number>::from_le_bytes(*a)).to_le_bytes();
            }
        }
    };
}

macro_rules! float {
    ($name:ident, $number:ty) => {
        fn $name(op: ReduceOp) -> Result<ElementLoops, &'static str> {
            loops!($number);
            /// The first of two numbers, unless the second is to be taken; a NaN is always taken.
            fn pick(a: $number, b: $number, is_better: bool) -> $number {
                if is_better || b.is_nan() { b } else { a }
            }
            let sum: fn(&mut [u8], &[u8], f64) = |a, b, _| zip(a, b, |a, b| a + b);
            Ok(match op {
                ReduceOp::Sum => ElementLoops::of(sum),
                ReduceOp::Avg => ElementLoops {
                    divide: |a, ranks| map(a, |a| a / ranks as $number),
                    ..ElementLoops::of(sum)
                },
                ReduceOp::PremulSum(_) => ElementLoops {
                    start: |a, factor| map(a, |a| a * factor as $number),
                    ..ElementLoops::of(|a, b, factor| zip(a, b, |a, b| a + b * factor as $number))
                },
                ReduceOp::Product => ElementLoops::of(|a, b, _| zip(a, b, |a, b| a * b)),
                ReduceOp::Min => ElementLoops::of(|a, b, _| zip(a, b, |a, b| pick(a, b, b < a))),
                ReduceOp::Max => ElementLoops::of(|a, b, _| zip(a, b, |a, b| pick(a, b, b > a))),
                _ => return Err(NO_FLOAT_BITS),
            })
        }
    };
}

macro_rules! integer {
    ($name:ident, $number:ty) => {
        fn $name(op: ReduceOp) -> Result<ElementLoops, &'static str> {
            loops!($number);
            let sum: fn(&mut [u8], &[u8], f64) = |a, b, _| zip(a, b, <$number>::wrapping_add);
            Ok(match op {
                ReduceOp::Sum => ElementLoops::of(sum),
                ReduceOp::Avg => ElementLoops {
                    divide: |a, ranks| {
                        // More ranks than an 8-bit number holds: every average is less than one.
                        let ranks = <$number>::try_from(ranks);
                        map(a, |a| ranks.map_or(0, |ranks| a / ranks));
                    },
                    ..ElementLoops::of(sum)
                },
                ReduceOp::Product => ElementLoops::of(|a, b, _| zip(a, b, <$number>::wrapping_mul)),
                ReduceOp::Min => ElementLoops::of(|a, b, _| zip(a, b, |a, b| a.min(b))),
                ReduceOp::Max => ElementLoops::of(|a, b, _| zip(a, b, |a, b| a.max(b))),
                ReduceOp::BitAnd => ElementLoops::of(|a, b, _| zip(a, b, |a, b| a & b)),
                ReduceOp::BitOr => ElementLoops::of(|a, b, _| zip(a, b, |a, b| a | b)),
                ReduceOp::BitXor => ElementLoops::of(|a, b, _| zip(a, b, |a, b| a ^ b)),
                ReduceOp::PremulSum(_) => return Err(NO_INTEGER_FACTOR),
            })
        }
    };
}

float!(float32, f32);
float!(float64, f64);
integer!(int8, i8);
integer!(uint8, u8);
integer!(int16, i16);
integer!(uint16, u16);
integer!(int32, i32);
integer!(uint32, u32);
integer!(int64, i64);
integer!(uint64, u64);

/// Bytes that are zero or one; any other byte counts as one.
fn boolean(op: ReduceOp) -> Result<ElementLoops, &'static str> {
    loops!(u8);
    fn truth(byte: u8) -> u8 {
        u8::from(byte != 0)
    }
    let add: fn(&mut [u8], &[u8], f64) = match op {
        ReduceOp::Sum | ReduceOp::Max | ReduceOp::BitOr => |a, b, _| zip(a, b, |a, b| a | truth(b)),
        ReduceOp::Product | ReduceOp::Min | ReduceOp::BitAnd => {
            |a, b, _| zip(a, b, |a, b| a & truth(b))
        }
        ReduceOp::BitXor => |a, b, _| zip(a, b, |a, b| a ^ truth(b)),
        ReduceOp::Avg => return Err(NO_BOOL_AVERAGE),
        ReduceOp::PremulSum(_) => return Err(NO_INTEGER_FACTOR),
    };
    Ok(ElementLoops { start: |a, _| map(a, truth), ..ElementLoops::of(add) })
}
