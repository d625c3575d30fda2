//! Made-up tensors, for those that the user does not give.

use anyhow::Result;
use clap::ValueEnum;
use spyre::artifact::Lane;
use spyre::numerics::{Converter, DType, DataFormat};
use spyre::runtime::CPUTensor;

use crate::files::npy::element_bytes;

/// Contents of made-up tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fill {
    /// Zeros.
    Zeros,
    /// Numbers from -1 to 1 in steps of 1/8, of which sums are exact in whatever order; integers
    /// from -8 to 7, or 0 to 15 if they have no sign.
    Random,
}

impl Fill {
    /// A tensor; the same seed and place give the same one.
    pub(crate) fn tensor(
        self,
        shape: &[usize],
        dtype: DType,
        seed: u64,
        place: usize,
    ) -> Result<CPUTensor> {
        if self == Self::Zeros {
            return Ok(CPUTensor::zeroed(shape, dtype)?);
        }
        let mut random = Random(seed ^ (place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let elements: usize = shape.iter().product();
        let format = dtype.host_format();
        let (source, numbers) = match Lane::of(format) {
            Some(Lane::I64) => {
                let lowest = if is_unsigned(dtype) { 0 } else { -8 };
                let number = |_| (lowest + (random.next() % 16) as i64).to_le_bytes();
                (DataFormat::IeeeInt64, (0..elements).flat_map(number).collect::<Vec<u8>>())
            }
            Some(Lane::Bool) => {
                (DataFormat::Bool, (0..elements).map(|_| (random.next() % 2) as u8).collect())
            }
            _ => {
                let number = |_| random.number().to_le_bytes();
                (DataFormat::IeeeFp32, (0..elements).flat_map(number).collect())
            }
        };
        let mut bytes = vec![0; elements * element_bytes(dtype)];
        Converter::new(source, format)?.convert(&numbers, &mut bytes)?;
        Ok(CPUTensor::from_bytes(shape, dtype, bytes)?)
    }

    pub(crate) fn describe(self, seed: u64) -> String {
        match self {
            Self::Zeros => "zeros".to_owned(),
            Self::Random => format!("random, seed {seed}"),
        }
    }
}

fn is_unsigned(dtype: DType) -> bool {
    matches!(dtype, DType::UInt8 | DType::UInt16 | DType::UInt32 | DType::UInt64)
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Number from -1 to 1, in steps of 1/8.
    fn number(&mut self) -> f32 {
        (self.next() % 17) as f32 / 8.0 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_in_every_dtype() -> Result<()> {
        for dtype in DType::ALL {
            let make = |seed, place| Fill::Random.tensor(&[5, 7], dtype, seed, place);
            let bytes = |tensor: CPUTensor| tensor.buffer().read().map(|bytes| bytes.to_vec());
            let first = bytes(make(1, 0)?)?;
            assert_eq!(first, bytes(make(1, 0)?)?, "{dtype}");
            assert_ne!(first, bytes(make(2, 0)?)?, "{dtype}");
            assert_ne!(first, bytes(make(1, 1)?)?, "{dtype}");
        }
        let numbers: Vec<f32> = Fill::Random.tensor(&[1000], DType::Float32, 3, 0)?.values()?;
        assert!(numbers.iter().all(|number| (-1.0..=1.0).contains(number)));
        assert!(numbers.contains(&-1.0) && numbers.contains(&1.0) && numbers.contains(&0.125));
        Ok(())
    }
}
