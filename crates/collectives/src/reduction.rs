//! Reductions, block by block, in the order of ranks.

mod element_loops;

use spyre_numerics::{Converter, DataFormat, Specials};

use crate::{Error, ReduceOp};
use element_loops::ElementLoops;

/// Elements that are reduced at a time: their accumulator and one operand stay in the second-level cache.
pub(crate) const BLOCK_ELEMENTS: usize = 32 * 1024;

/// Reduction of one format, as functions of blocks of bytes.
///
/// An accumulator is started by the elements of rank 0 and takes those of the others in order. Floats of
/// 16 and 8 bits are `f32` in it. It is finished once: averages are divided, and those floats are rounded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reducer {
    loops: ElementLoops,
    element_bytes: usize,
    /// Converters of floats of 16 and 8 bits to `f32` and back.
    wide: Option<(Converter, Converter)>,
    factor: f64,
    divisor: Option<u64>,
}

impl Reducer {
    /// A reduction among so many ranks, or the reason why there is none.
    pub(crate) fn new(op: ReduceOp, format: DataFormat, ranks: usize) -> Result<Self, Error> {
        let refusal = |remedy| Error::NotReducible { op: op.name(), format, remedy };
        let part = part_format(format);
        if part != format && !matches!(op, ReduceOp::Sum | ReduceOp::Avg | ReduceOp::PremulSum(_)) {
            return Err(refusal("complex numbers have SUM, AVG and PREMUL_SUM"));
        }
        let wide = match part {
            DataFormat::IeeeFp16
            | DataFormat::BFloat16
            | DataFormat::Sen169Fp16
            | DataFormat::Sen143Fp8
            | DataFormat::Sen152Fp8
            | DataFormat::Fp8E4M3FnUz
            | DataFormat::Fp8E5M2 => {
                Some(wide_converters(part).ok_or_else(|| refusal("convert to float32 first"))?)
            }
            _ => None,
        };
        let working = if wide.is_some() { DataFormat::IeeeFp32 } else { part };
        let loops = ElementLoops::new(op, working).map_err(refusal)?;
        Ok(Self {
            loops,
            element_bytes: part.element_bytes().unwrap_or(1),
            wide,
            factor: if let ReduceOp::PremulSum(factor) = op { factor } else { 1.0 },
            divisor: matches!(op, ReduceOp::Avg).then_some(ranks as u64),
        })
    }

    /// Bytes of an element in memory.
    pub(crate) fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// Bytes that an accumulator has for so many bytes of memory.
    pub(crate) fn accumulator_bytes(&self, bytes: usize) -> usize {
        if self.wide.is_some() { bytes / self.element_bytes * size_of::<f32>() } else { bytes }
    }

    /// Starts an accumulator with the first rank's elements.
    pub(crate) fn start(&self, accumulator: &mut [u8], first: &[u8]) {
        if let Some((widen, _)) = &self.wide {
            convert(widen, first, accumulator);
        } else {
            accumulator.copy_from_slice(first);
        }
        (self.loops.start)(accumulator, self.factor);
    }

    /// Adds the next rank's elements; `scratch` is as long as the accumulator.
    pub(crate) fn add(&self, accumulator: &mut [u8], next: &[u8], scratch: &mut [u8]) {
        if let Some((widen, _)) = &self.wide {
            convert(widen, next, scratch);
            (self.loops.add)(accumulator, scratch, self.factor);
        } else {
            (self.loops.add)(accumulator, next, self.factor);
        }
    }

    /// Writes the result.
    pub(crate) fn finish(&self, accumulator: &mut [u8], result: &mut [u8]) {
        if let Some(divisor) = self.divisor {
            (self.loops.divide)(accumulator, divisor);
        }
        if let Some((_, narrow)) = &self.wide {
            convert(narrow, accumulator, result);
        } else {
            result.copy_from_slice(accumulator);
        }
    }
}

/// The real format that a complex one consists of; others are returned as they are.
fn part_format(format: DataFormat) -> DataFormat {
    match format {
        DataFormat::Complex32 => DataFormat::IeeeFp16,
        DataFormat::Complex64 => DataFormat::IeeeFp32,
        DataFormat::Complex128 => DataFormat::IeeeFp64,
        format => format,
    }
}

fn wide_converters(format: DataFormat) -> Option<(Converter, Converter)> {
    let widen = Converter::new(format, DataFormat::IeeeFp32).ok()?;
    let narrow = Converter::new(DataFormat::IeeeFp32, format).ok()?;
    Some((widen.with_specials(Specials::Ordered), narrow.with_specials(Specials::Ordered)))
}

fn convert(converter: &Converter, source: &[u8], target: &mut [u8]) {
    let result = converter.convert(source, target);
    debug_assert!(result.is_ok(), "blocks have whole elements: {result:?}");
}

#[cfg(test)]
mod tests;
