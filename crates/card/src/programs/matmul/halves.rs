//! Numbers as sums of bfloat16: exact ones, so that tiles of bfloat16 multiply other formats, too.

use spyre_numerics::{DataFormat, Tier};

use crate::programs::execute::vector::{Job, run};

/// Number of bfloat16 whose sum is each number of a format; `None` if that takes more than two.
pub(in crate::programs) fn halves_of(format: DataFormat) -> Option<usize> {
    match format {
        DataFormat::BFloat16
        | DataFormat::SenInt8
        | DataFormat::UInt8
        | DataFormat::Sen143Fp8
        | DataFormat::Sen152Fp8
        | DataFormat::Fp8E5M2
        | DataFormat::Fp8E4M3FnUz => Some(1),
        DataFormat::IeeeFp16
        | DataFormat::Sen169Fp16
        | DataFormat::SenInt16
        | DataFormat::UInt16 => Some(2),
        _ => None,
    }
}

/// Splits numbers of float32 with up to 16 significant bits: the upper half of each, and what is left of it, if
/// there is room for that. Returns true if all are finite.
pub(in crate::programs) fn split_halves(
    numbers: &[f32],
    high: &mut [u16],
    low: Option<&mut [u16]>,
) -> bool {
    run(Tier::detected(), SplitHalves { numbers, high, low })
}

struct SplitHalves<'a> {
    numbers: &'a [f32],
    high: &'a mut [u16],
    low: Option<&'a mut [u16]>,
}

/// The bits of an exponent: all are set in what is not finite.
const EXPONENT: u32 = 0x7F80_0000;
/// The bits of the upper half.
const HIGH: u32 = 0xFFFF_0000;

impl Job for SplitHalves<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<const TIER: u8>(self) -> bool {
        let Self { numbers, high, low } = self;
        let mut largest = 0;
        for (high, number) in high.iter_mut().zip(numbers) {
            *high = (number.to_bits() >> 16) as u16;
            largest = largest.max(number.to_bits() & EXPONENT);
        }
        let Some(low) = low else { return largest < EXPONENT };
        for (low, number) in low.iter_mut().zip(numbers) {
            let high = f32::from_bits(number.to_bits() & HIGH);
            *low = ((number - high).to_bits() >> 16) as u16;
        }
        largest < EXPONENT
    }
}

#[cfg(test)]
mod tests {
    use spyre_numerics::Converter;
    use zerocopy::IntoBytes;

    use super::*;

    #[test]
    fn the_halves_of_a_half_precision_number_are_exact() -> Result<(), spyre_numerics::Error> {
        let codes: Vec<u16> = (0..=u16::MAX).collect();
        let mut all = vec![0.0_f32; codes.len()];
        let converter = Converter::new(DataFormat::IeeeFp16, DataFormat::IeeeFp32)?;
        converter.convert(codes.as_bytes(), all.as_mut_bytes())?;
        let finite: Vec<f32> = all.iter().copied().filter(|number| number.is_finite()).collect();
        let mut high = vec![0; all.len()];
        let mut low = high.clone();
        assert!(!split_halves(&all, &mut high, Some(&mut low)), "some are not finite");
        assert!(split_halves(&finite, &mut high, Some(&mut low)));
        let wide = |bits: u16| f32::from_bits(u32::from(bits) << 16);
        for ((high, low), number) in high.iter().zip(&low).zip(&finite) {
            assert_eq!(wide(*high) + wide(*low), *number);
        }
        Ok(())
    }
}
