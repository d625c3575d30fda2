//! Vectors of 16-bit numbers as float32: in one or a few instructions, where the CPU has them.
#![allow(unsafe_code, reason = "vector instructions")]

use spyre_numerics::{Sen169, Tier};

use crate::programs::execute::vector::LANES;

#[cfg(target_arch = "x86_64")]
const AVX_512: u8 = Tier::Avx512 as u8;
#[cfg(target_arch = "x86_64")]
const AVX_2: u8 = Tier::Avx2 as u8;

/// Numbers of half precision. To be inlined into code for the tier.
#[inline(always)]
pub(in crate::programs) fn of_halves<const TIER: u8>(bits: [u16; LANES]) -> [f32; LANES] {
    debug_assert!(TIER <= Tier::detected() as u8, "code for another CPU");
    match TIER {
        // SAFETY: the CPU has the instructions of the tier.
        #[cfg(target_arch = "x86_64")]
        AVX_512 => unsafe { x86::halves_512(bits) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        AVX_2 => unsafe { x86::halves_256(bits) },
        _ => bits.map(of_half),
    }
}

/// Numbers of SEN169, the special as an infinity. To be inlined into code for the tier.
#[inline(always)]
pub(in crate::programs) fn of_sens<const TIER: u8>(bits: [u16; LANES]) -> [f32; LANES] {
    debug_assert!(TIER <= Tier::detected() as u8, "code for another CPU");
    match TIER {
        // SAFETY: the CPU has the instructions of the tier.
        #[cfg(target_arch = "x86_64")]
        AVX_512 => unsafe { x86::sens_512(bits) },
        _ => bits.map(|bits| Sen169::from_bits(bits).to_ordered_f32()),
    }
}

/// A number of half precision: its exponent is moved by a product, which is exact, subnormal numbers included.
#[inline(always)]
fn of_half(bits: u16) -> f32 {
    const SIGN: u16 = 0x8000;
    const INFINITY: u16 = 0x7C00;
    const EXPONENT: u32 = 0x7F80_0000;
    let magnitude = u32::from(bits & !SIGN) << 13;
    let finite = (f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23)).to_bits();
    let is_finite = bits & INFINITY != INFINITY;
    let wide = if is_finite { finite } else { magnitude | EXPONENT };
    f32::from_bits(wide | u32::from(bits & SIGN) << 16)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _mm_loadu_si128, _mm256_cvtph_ps, _mm256_loadu_si256, _mm256_storeu_ps, _mm512_and_si512,
        _mm512_castsi512_ps, _mm512_cmpeq_epi32_mask, _mm512_cvtepu16_epi32, _mm512_cvtph_ps,
        _mm512_mask_blend_epi32, _mm512_maskz_add_epi32, _mm512_or_si512, _mm512_set1_epi32,
        _mm512_slli_epi32, _mm512_storeu_ps, _mm512_test_epi32_mask,
    };

    use super::LANES;

    /// # Safety
    /// The CPU has AVX-512.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn halves_512(bits: [u16; LANES]) -> [f32; LANES] {
        let mut wide = [0.0; LANES];
        // SAFETY: both ends hold 16 numbers.
        unsafe {
            let bits = _mm256_loadu_si256(bits.as_ptr().cast());
            _mm512_storeu_ps(wide.as_mut_ptr(), _mm512_cvtph_ps(bits));
        }
        wide
    }

    /// # Safety
    /// The CPU has AVX2 and F16C.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    pub(super) unsafe fn halves_256(bits: [u16; LANES]) -> [f32; LANES] {
        let mut wide = [0.0; LANES];
        for at in [0, LANES / 2] {
            // SAFETY: both ends hold 8 numbers from there on.
            unsafe {
                let bits = _mm_loadu_si128(bits.as_ptr().add(at).cast());
                _mm256_storeu_ps(wide.as_mut_ptr().add(at), _mm256_cvtph_ps(bits));
            }
        }
        wide
    }

    /// # Safety
    /// The CPU has AVX-512.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn sens_512(bits: [u16; LANES]) -> [f32; LANES] {
        /// Difference of the exponents of float32 and SEN169.
        const REBIAS: i32 = (127 - 31) << 23;
        const SPECIAL: i32 = 0x7FFF;
        const INFINITY: i32 = 0x7F80_0000;
        let mut wide = [0.0; LANES];
        // SAFETY: both ends hold 16 numbers.
        unsafe {
            let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(bits.as_ptr().cast()));
            let special = _mm512_set1_epi32(SPECIAL);
            let magnitude = _mm512_and_si512(bits, special);
            let sign = _mm512_slli_epi32::<16>(_mm512_and_si512(bits, _mm512_set1_epi32(0x8000)));
            let is_number = _mm512_test_epi32_mask(magnitude, magnitude);
            let is_special = _mm512_cmpeq_epi32_mask(magnitude, special);
            let normal = _mm512_slli_epi32::<14>(magnitude);
            let finite = _mm512_maskz_add_epi32(is_number, normal, _mm512_set1_epi32(REBIAS));
            let infinity = _mm512_set1_epi32(INFINITY);
            let ordered = _mm512_mask_blend_epi32(is_special, finite, infinity);
            let signed = _mm512_castsi512_ps(_mm512_or_si512(ordered, sign));
            _mm512_storeu_ps(wide.as_mut_ptr(), signed);
        }
        wide
    }
}

#[cfg(test)]
mod tests {
    use spyre_numerics::{Converter, DataFormat, Specials};
    use zerocopy::IntoBytes;

    use super::*;
    use crate::programs::execute::vector::{Job, run};

    struct Widen<'a>(&'a [u16], DataFormat);

    impl Job for Widen<'_> {
        type Output = Vec<f32>;

        #[inline(always)]
        fn run<const TIER: u8>(self) -> Vec<f32> {
            let all = self.0.as_chunks().0.iter();
            match self.1 {
                DataFormat::IeeeFp16 => all.flat_map(|some| of_halves::<TIER>(*some)).collect(),
                _ => all.flat_map(|some| of_sens::<TIER>(*some)).collect(),
            }
        }
    }

    #[test]
    fn every_number_is_what_a_converter_makes_of_it_on_every_tier()
    -> Result<(), spyre_numerics::Error> {
        let codes: Vec<u16> = (0..=u16::MAX).collect();
        for format in [DataFormat::IeeeFp16, DataFormat::Sen169Fp16] {
            let mut expected = vec![0.0_f32; codes.len()];
            let converter = Converter::new(format, DataFormat::IeeeFp32)?;
            let converter = converter.with_specials(Specials::Ordered);
            converter.convert(codes.as_bytes(), expected.as_mut_bytes())?;
            for tier in Tier::ALL.into_iter().filter(|tier| tier.is_available()) {
                let found = run(tier, Widen(&codes, format));
                for ((code, found), expected) in codes.iter().zip(&found).zip(&expected) {
                    let is_equal = found == expected || found.is_nan() && expected.is_nan();
                    assert!(is_equal, "{code:#x} of {format:?}: {found}, {tier}");
                }
            }
        }
        Ok(())
    }
}
