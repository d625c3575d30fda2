//! Damage to bytes, and checksums that are right again.

use std::ops::Range;

use spyre_artifact::HEADER_BYTES;

use crate::random::Random;

const CRC_AT: usize = HEADER_BYTES - 4;

/// Damages bytes in one to four places.
pub(crate) fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        match random.below(10) {
            0 if random.one_in(4) => bytes.truncate(at),
            1 if random.one_in(4) => bytes.extend(vec![random.number() as u8; random.below(300)]),
            2 | 3 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            4 if !bytes.is_empty() => bytes[at] = random.pick(&[0, 1, 0x7F, 0x80, 0xFF]),
            5 if bytes.len() >= 8 => {
                let at = random.below(bytes.len() / 4) * 4;
                let edge = random.pick(&[0, 1, u32::MAX, 1 << 31, 65536, 65537, 128]);
                bytes[at..at + 4].copy_from_slice(&edge.to_le_bytes());
            }
            6 if bytes.len() >= 32 => {
                let units = bytes.len() / 16;
                let from = random.below(units) * 16;
                let to = random.below(units) * 16;
                bytes.copy_within(from..from + 16, to);
            }
            7 if bytes.len() >= 8 => {
                let at = random.below(bytes.len() / 8) * 8;
                bytes[at..at + 8].copy_from_slice(&random.word().to_le_bytes());
            }
            8 if !bytes.is_empty() => bytes[at] = random.below(20) as u8,
            _ if !bytes.is_empty() => bytes[at] = random.number() as u8,
            _ => bytes.extend(random.number().to_le_bytes()),
        }
    }
}

/// Makes an image's checksum right again, so that damage gets past it.
pub(crate) fn seal(bytes: &mut [u8]) {
    let Some(covered) = covered(bytes) else { return };
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..CRC_AT]);
    hasher.update(&bytes[covered]);
    let crc = hasher.finalize();
    bytes[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// Bytes that the checksum covers besides the header: a table or an input area is patched.
fn covered(bytes: &[u8]) -> Option<Range<usize>> {
    let header = bytes.get(..HEADER_BYTES)?;
    let start = match header[..8] {
        [.., b'E', b'N', b'T', b'R'] => return Some(0..0),
        [.., b'C', b'O', b'R', b'R'] => {
            u32::from_le_bytes([header[56], header[57], header[58], header[59]]) as usize
        }
        _ => HEADER_BYTES,
    };
    Some(start.min(bytes.len())..bytes.len())
}

#[cfg(test)]
mod tests {
    use spyre_artifact::{CorrectionImage, CorrectionProgram, EntryImage, HandleWords, TableShape};

    use super::*;

    #[test]
    fn a_good_image_is_sealed_already() {
        let shape = TableShape { operands: 1, scalars: 2 };
        let entry = EntryImage::new(HandleWords([1, 2, 3]), shape, 0).expect("small").encode();
        let program = CorrectionProgram::new(20, 34, Vec::new()).expect("it does nothing");
        for image in [entry, CorrectionImage::new(HandleWords([1, 2, 3]), program).encode()] {
            let mut sealed = image.clone();
            sealed[CRC_AT] ^= 1;
            seal(&mut sealed);
            assert_eq!(sealed, image);
        }
    }
}
