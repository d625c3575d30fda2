//! Layout of programs in device memory.
//!
//! All three images begin with a header of 128 bytes: magic (8 bytes), version, kind (4 each), bytes
//! of the whole image (8), fields of their own, and a CRC-32 in the last four. Numbers are
//! little-endian, parts begin at multiples of 128 bytes, and every byte without a meaning is zero.

mod code;
mod correction;
mod entry;
mod header;

pub use code::{Code, CodeImage};
pub use correction::CorrectionImage;
pub use entry::{EntryHeader, EntryImage};
pub use header::{HEADER_BYTES, IMAGE_VERSION};

use super::wire::Reader;
use crate::Error;

/// The most bytes of one image.
pub const MAX_IMAGE_BYTES: usize = 64 << 20;

/// Any image, identified by its magic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// Shared code.
    Code(CodeImage),
    /// An instance of a compute program.
    Entry(EntryImage),
    /// An instance of a correction program.
    Correction(CorrectionImage),
}

impl Image {
    /// The image in these bytes, whichever it is.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new("image", bytes, 0);
        match reader.u64("magic")? {
            header::CODE => CodeImage::decode(bytes).map(Self::Code),
            header::ENTRY => EntryImage::decode(bytes).map(Self::Entry),
            header::CORRECTION => CorrectionImage::decode(bytes).map(Self::Correction),
            magic => Err(reader.unexpected("magic", 8, magic, header::ANY_MAGIC)),
        }
    }
}
