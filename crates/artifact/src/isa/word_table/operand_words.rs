use std::fmt;

use spyre_layout::{ElementArrangement, SpyreTensorLayout};
use spyre_numerics::DataFormat;

use super::HandleWords;
use crate::isa::MAX_OPERAND_DIMS;
use crate::isa::instruction::format_from_code;
use crate::{Error, OperandFlaw};

/// Words of one operand in the table.
pub const OPERAND_WORDS: usize = 26;

const MAX_DEVICE_RANK: usize = 8;

/// One operand as correction writes it: an allocation, the layout of the storage in it, and how the
/// program's dims step over that storage.
///
/// | words | what |
/// |---|---|
/// | 0 to 2 | the allocation's handle |
/// | 3 | `limit_bytes`: no access reaches this far from the handle |
/// | 4 | `offset`, in host elements |
/// | 5 to 12 | `strides`: host elements per step along each dim that the operand spans, lowest dim first; 0 repeats |
/// | 13 | the layout word: device rank (bits 0 to 7, 1 to 8; 0 is an operand that is not filled yet), format (8 to 15), element arrangement (16 to 23) |
/// | 14 to 17 | `device_size`, two 32-bit numbers per word, the even one low |
/// | 18 to 25 | `stride_map`; 0 past the device rank |
///
/// ```
/// use spyre_artifact::{HandleWords, OperandWords};
/// use spyre_layout::SpyreTensorLayout;
/// use spyre_numerics::DataFormat::IeeeFp16;
///
/// let layout = SpyreTensorLayout::contiguous(&[512, 240], IeeeFp16)?;
/// let handle = HandleWords([1, 2, 3]);
/// let mut operand = OperandWords::of_layout(handle, layout.device_bytes() as u64, &layout)?;
/// operand.strides[..2].copy_from_slice(&[240, 1]);
///
/// let decoded = OperandWords::decode(&operand.encode())?;
/// assert_eq!(decoded, operand);
/// assert_eq!(decoded.layout(IeeeFp16)?, layout);
/// # Ok::<(), spyre_artifact::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandWords {
    /// The allocation.
    pub handle: HandleWords,
    /// Bytes from the handle that may be touched.
    pub limit_bytes: u64,
    /// Host elements before the first.
    pub offset: i64,
    /// Host elements per step along each dim that the operand spans, lowest first.
    pub strides: [i64; MAX_OPERAND_DIMS],
    /// Format of elements in memory.
    pub format: DataFormat,
    /// The order of elements inside sticks.
    pub arrangement: ElementArrangement,
    /// Device dimensions that are in use.
    pub device_rank: usize,
    /// Elements along each device dimension.
    pub device_size: [u32; MAX_DEVICE_RANK],
    /// Host elements that one step along each device dimension spans; -1 is padding.
    pub stride_map: [i64; MAX_DEVICE_RANK],
}

/// One word of an operand, or two halves of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperandField {
    /// A word of the handle: 0 to 2.
    Handle(u8),
    /// Bytes from the handle that may be touched.
    LimitBytes,
    /// Host elements before the first.
    Offset,
    /// Host elements per step along a dim that the operand spans: 0 to 7, its place among them.
    Stride(u8),
    /// Device rank, format and arrangement.
    Layout,
    /// Two device sizes: 0 to 3.
    DeviceSize(u8),
    /// An entry of the stride map: 0 to 7.
    StrideMap(u8),
}

impl OperandWords {
    /// A storage; its strides and offset are 0 until they are set.
    pub fn of_layout(
        handle: HandleWords,
        limit_bytes: u64,
        layout: &SpyreTensorLayout,
    ) -> Result<Self, Error> {
        let mut device_size = [0; MAX_DEVICE_RANK];
        let mut stride_map = [0; MAX_DEVICE_RANK];
        for (dim, &elements) in layout.device_size().iter().enumerate() {
            device_size[dim] = u32::try_from(elements)
                .map_err(|_| flaw(OperandFlaw::DeviceSize { dim, elements }))?;
        }
        let device_rank = layout.device_size().len();
        // The map that places elements: a layout made from words knows no host shape.
        stride_map[..device_rank].copy_from_slice(layout.placing_map());
        Ok(Self {
            handle,
            limit_bytes,
            offset: 0,
            strides: [0; MAX_OPERAND_DIMS],
            format: layout.device_dtype(),
            arrangement: layout.element_arrangement(),
            device_rank,
            device_size,
            stride_map,
        })
    }

    /// The storage's layout, for a program that declares `format`.
    pub fn layout(&self, format: DataFormat) -> Result<SpyreTensorLayout, Error> {
        if self.format != format {
            let found = self.format;
            let expected = format;
            return Err(flaw(OperandFlaw::FormatMismatch { found, expected }));
        }
        let rank = self.device_rank.min(MAX_DEVICE_RANK);
        let sizes = self.device_size.map(|elements| elements as usize);
        let layout = SpyreTensorLayout::explicit(&sizes[..rank], &self.stride_map[..rank], format)?;
        Ok(layout.with_element_arrangement(self.arrangement))
    }

    /// Its words, in the order of the table above.
    pub fn encode(&self) -> [u64; OPERAND_WORDS] {
        let mut words = [0; OPERAND_WORDS];
        words[..3].copy_from_slice(&self.handle.0);
        words[3] = self.limit_bytes;
        words[4] = self.offset.cast_unsigned();
        words[5..13].copy_from_slice(&self.strides.map(i64::cast_unsigned));
        words[13] = self.layout_word();
        for (word, pair) in words[14..18].iter_mut().zip(self.device_size.as_chunks::<2>().0) {
            *word = u64::from(pair[1]) << 32 | u64::from(pair[0]);
        }
        words[18..].copy_from_slice(&self.stride_map.map(i64::cast_unsigned));
        words
    }

    /// The operand in these words. Whether its layout can be is for [`OperandWords::layout`] to say.
    pub fn decode(words: &[u64; OPERAND_WORDS]) -> Result<Self, Error> {
        let (device_rank, format, arrangement) = split_layout_word(words[13]).map_err(flaw)?;
        let signed = |at: usize| words[at].cast_signed();
        let half = |dim: usize| (words[14 + dim / 2] >> (dim % 2 * 32)) as u32;
        Ok(Self {
            handle: HandleWords([words[0], words[1], words[2]]),
            limit_bytes: words[3],
            offset: signed(4),
            strides: std::array::from_fn(|dim| signed(5 + dim)),
            format,
            arrangement,
            device_rank,
            device_size: std::array::from_fn(half),
            stride_map: std::array::from_fn(|dim| signed(18 + dim)),
        })
    }

    fn layout_word(&self) -> u64 {
        let [format, arrangement] = [self.format as u64, self.arrangement as u64];
        arrangement << 16 | format << 8 | self.device_rank as u64
    }
}

impl OperandField {
    /// Every field, in the order of words.
    pub fn all() -> impl Iterator<Item = Self> {
        let limits = [Self::LimitBytes, Self::Offset];
        let handles = (0..3).map(Self::Handle);
        handles
            .chain(limits)
            .chain((0..8).map(Self::Stride))
            .chain([Self::Layout])
            .chain((0..4).map(Self::DeviceSize))
            .chain((0..8).map(Self::StrideMap))
    }

    /// Index of the field among the operand's words.
    pub fn word(self) -> usize {
        match self {
            Self::Handle(at) => usize::from(at),
            Self::LimitBytes => 3,
            Self::Offset => 4,
            Self::Stride(dim) => 5 + usize::from(dim),
            Self::Layout => 13,
            Self::DeviceSize(pair) => 14 + usize::from(pair),
            Self::StrideMap(dim) => 18 + usize::from(dim),
        }
    }
}

impl fmt::Display for OperandField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handle(at) => write!(f, "handle[{at}]"),
            Self::LimitBytes => f.write_str("limit_bytes"),
            Self::Offset => f.write_str("offset"),
            Self::Stride(dim) => write!(f, "stride[{dim}]"),
            Self::Layout => f.write_str("layout"),
            Self::DeviceSize(pair) => write!(f, "device_size[{pair}]"),
            Self::StrideMap(dim) => write!(f, "stride_map[{dim}]"),
        }
    }
}

fn split_layout_word(word: u64) -> Result<(usize, DataFormat, ElementArrangement), OperandFlaw> {
    let [rank, format, arrangement, rest @ ..] = word.to_le_bytes();
    match rank {
        0 => return Err(OperandFlaw::Unfilled),
        1..=8 => {}
        _ => return Err(OperandFlaw::Rank { rank }),
    }
    if rest != [0; 5] {
        return Err(OperandFlaw::Reserved { word });
    }
    let known = format_from_code(format).filter(|format| format.element_bytes().is_some());
    let format = known.ok_or(OperandFlaw::Format { code: format })?;
    let known = arrangement_from_code(arrangement);
    let arrangement = known.ok_or(OperandFlaw::Arrangement { code: arrangement })?;
    Ok((rank.into(), format, arrangement))
}

fn arrangement_from_code(code: u8) -> Option<ElementArrangement> {
    use ElementArrangement::{Dl16ToFp32, Exx2, Parts, QFp8Ch, Standard};
    [Standard, Dl16ToFp32, QFp8Ch, Exx2, Parts].into_iter().find(|&known| known as u8 == code)
}

fn flaw(flaw: OperandFlaw) -> Error {
    Error::OperandWords(flaw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_word_of_its_own() {
        let words: Vec<usize> = OperandField::all().map(OperandField::word).collect();
        assert_eq!(words, (0..OPERAND_WORDS).collect::<Vec<_>>());
    }

    #[test]
    fn an_operand_that_was_not_filled_says_so() {
        let error = OperandWords::decode(&[0; OPERAND_WORDS]).expect_err("unfilled");
        assert_eq!(error, Error::OperandWords(OperandFlaw::Unfilled));
        assert!(error.to_string().contains("launch the correction program first"));
    }

    #[test]
    fn a_layout_word_without_meaning_is_refused() {
        let refusal = |word: u64| {
            let mut words = [0; OPERAND_WORDS];
            words[13] = word;
            OperandWords::decode(&words).expect_err("refused")
        };
        assert_eq!(refusal(9), flaw(OperandFlaw::Rank { rank: 9 }));
        assert_eq!(refusal(0x0201), flaw(OperandFlaw::Format { code: 2 }));
        assert_eq!(refusal(0x05_0101), flaw(OperandFlaw::Arrangement { code: 5 }));
        assert_eq!(refusal(0x100_0101), flaw(OperandFlaw::Reserved { word: 0x100_0101 }));
    }

    #[test]
    fn padding_sticks_stay_padding() -> Result<(), Error> {
        let explicit =
            SpyreTensorLayout::explicit(&[2, 64, 64], &[64, 60, 1], DataFormat::IeeeFp16)?;
        let layout = explicit.for_host(&[64, 60], &[60, 1])?;
        let words = OperandWords::of_layout(HandleWords::NONE, 0, &layout)?;
        let read = words.layout(DataFormat::IeeeFp16)?;
        for element in 0..64 * 60 {
            assert_eq!(read.device_element(element), layout.device_element(element));
        }
        Ok(())
    }

    #[test]
    fn a_storage_of_another_format_is_refused() -> Result<(), Error> {
        let layout = SpyreTensorLayout::contiguous(&[64], DataFormat::IeeeFp16)?;
        let words = OperandWords::of_layout(HandleWords::NONE, 0, &layout)?;
        let error = words.layout(DataFormat::BFloat16).expect_err("another format");
        assert!(error.to_string().contains("IEEE_FP16"), "{error}");
        Ok(())
    }
}
