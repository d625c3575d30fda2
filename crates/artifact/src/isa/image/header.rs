//! Fields that the headers of all images have in common.

use super::MAX_IMAGE_BYTES;
use crate::isa::wire::{ALIGN_BYTES, Reader};
use crate::{Error, Expected};

/// Bytes of a header: one stick.
pub const HEADER_BYTES: usize = ALIGN_BYTES;
/// The version of all image forms.
pub const IMAGE_VERSION: u32 = 2;

pub(super) const CODE: u64 = u64::from_le_bytes(*b"SPYRCODE");
pub(super) const ENTRY: u64 = u64::from_le_bytes(*b"SPYRENTR");
pub(super) const CORRECTION: u64 = u64::from_le_bytes(*b"SPYRCORR");
pub(super) const ANY_MAGIC: Expected = Expected::Kind("SPYRCODE, SPYRENTR or SPYRCORR");

const CRC_AT: usize = HEADER_BYTES - 4;

/// Begins a header.
pub(super) fn begin(magic: u64, kind: u32, image_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(image_bytes);
    bytes.extend(magic.to_le_bytes());
    bytes.extend(IMAGE_VERSION.to_le_bytes());
    bytes.extend(kind.to_le_bytes());
    bytes.extend((image_bytes as u64).to_le_bytes());
    bytes
}

/// Writes the checksum of the header and of `covered` into the header's last bytes.
pub(super) fn seal(bytes: &mut [u8], covered: std::ops::Range<usize>) {
    let crc = checksum(bytes, covered);
    bytes[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// Reads what is common: magic, version and size. Returns the kind and a reader behind it.
pub(super) fn open<'a>(
    part: &'static str,
    bytes: &'a [u8],
    magic: u64,
) -> Result<(Reader<'a>, u32, usize), Error> {
    let header = Reader::new(part, bytes, 0).take("header", HEADER_BYTES)?;
    let mut reader = Reader::new(part, header, 0);
    reader.expect_u64("magic", magic)?;
    reader.expect_u32("version", IMAGE_VERSION)?;
    let kind = reader.u32("kind")?;
    let announced = reader.u64("image bytes")?;
    match usize::try_from(announced) {
        Ok(image_bytes) if image_bytes <= MAX_IMAGE_BYTES => Ok((reader, kind, image_bytes)),
        _ => {
            let most = Expected::AtMost(MAX_IMAGE_BYTES as u64);
            Err(reader.unexpected("image bytes", 8, announced, most))
        }
    }
}

/// Refuses anything between the last field and the checksum.
pub(super) fn close(reader: &mut Reader<'_>) -> Result<(), Error> {
    reader.zeros(CRC_AT - reader.position())
}

/// Refuses bytes whose checksum is another; `covered` lies inside `bytes`.
pub(super) fn check(
    part: &'static str,
    bytes: &[u8],
    covered: std::ops::Range<usize>,
) -> Result<(), Error> {
    let mut reader = Reader::new(part, bytes, 0);
    reader.take("header", CRC_AT)?;
    reader.expect_u32("checksum", checksum(bytes, covered))
}

/// Refuses bytes that are not as many as the header announces, or the parts need.
pub(super) fn check_bytes(
    part: &'static str,
    bytes: &[u8],
    announced: usize,
    needed: usize,
) -> Result<(), Error> {
    let refuse = |field, found: usize, expected: usize| {
        let expected = Expected::Exactly(expected as u64);
        Err(Error::Unexpected { part, offset: 16, field, found: found as u64, expected })
    };
    if announced != needed {
        return refuse("image bytes", announced, needed);
    }
    if bytes.len() != announced { refuse("given bytes", bytes.len(), announced) } else { Ok(()) }
}

fn checksum(bytes: &[u8], covered: std::ops::Range<usize>) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..CRC_AT]);
    hasher.update(&bytes[covered]);
    hasher.finalize()
}

/// Bytes of a part with the zeros behind it.
pub(super) fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN_BYTES)
}
