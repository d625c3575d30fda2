//! Little-endian bytes: a reader that names what it cannot read, and writers.

use crate::{Error, Expected};

/// Device memory is laid out in units of this many bytes: one stick.
pub(super) const ALIGN_BYTES: usize = spyre_numerics::STICK_BYTES;

/// Reads fields in order. It never allocates: lists are cut from what is there.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    part: &'static str,
    bytes: &'a [u8],
    at: usize,
    /// Offset of the part in the whole, so that errors give offsets a person can look up.
    base: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(part: &'static str, bytes: &'a [u8], base: usize) -> Self {
        Self { part, bytes, at: 0, base }
    }

    /// Bytes that were read so far.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn take(&mut self, field: &'static str, bytes: usize) -> Result<&'a [u8], Error> {
        let rest = &self.bytes[self.at..];
        let Some(taken) = rest.get(..bytes) else {
            let part = self.part;
            let offset = self.base + self.at;
            let found = rest.len();
            return Err(Error::Truncated { part, offset, field, found, expected: bytes });
        };
        self.at += bytes;
        Ok(taken)
    }

    /// `count` items of `bytes` each, cut from what is there.
    pub(super) fn items(
        &mut self,
        field: &'static str,
        count: usize,
        bytes: usize,
    ) -> Result<std::slice::ChunksExact<'a, u8>, Error> {
        let total = count.saturating_mul(bytes);
        Ok(self.take(field, total)?.chunks_exact(bytes))
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, Error> {
        self.array::<1>(field).map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, Error> {
        self.array(field).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, Error> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, Error> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// Refuses bytes that are not zero: they are for later versions.
    pub(super) fn zeros(&mut self, bytes: usize) -> Result<(), Error> {
        let taken = self.take("reserved", bytes)?;
        match taken.iter().position(|&byte| byte != 0) {
            None => Ok(()),
            Some(at) => {
                self.at -= bytes - at - 1;
                Err(self.unexpected("reserved", 1, taken[at].into(), Expected::Exactly(0)))
            }
        }
    }

    /// Skips zeros up to the next unit of `unit` bytes.
    pub(super) fn pad_to(&mut self, unit: usize) -> Result<(), Error> {
        self.zeros(self.at.next_multiple_of(unit) - self.at)
    }

    /// An error about the field of `bytes` that was just read.
    pub(super) fn unexpected(
        &self,
        field: &'static str,
        bytes: usize,
        found: u64,
        expected: Expected,
    ) -> Error {
        let part = self.part;
        let offset = self.base + self.at - bytes;
        Error::Unexpected { part, offset, field, found, expected }
    }

    /// A `u32` that must be this.
    pub(super) fn expect_u32(&mut self, field: &'static str, expected: u32) -> Result<(), Error> {
        match self.u32(field)? {
            found if found == expected => Ok(()),
            found => Err(self.unexpected(field, 4, found.into(), exactly(expected))),
        }
    }

    /// A `u64` that must be this.
    pub(super) fn expect_u64(&mut self, field: &'static str, expected: u64) -> Result<(), Error> {
        match self.u64(field)? {
            found if found == expected => Ok(()),
            found => Err(self.unexpected(field, 8, found, Expected::Exactly(expected))),
        }
    }

    /// A `u32` of at most this.
    pub(super) fn u32_up_to(&mut self, field: &'static str, most: usize) -> Result<usize, Error> {
        match self.u32(field)? as usize {
            found if found <= most => Ok(found),
            found => Err(self.unexpected(field, 4, found as u64, Expected::AtMost(most as u64))),
        }
    }

    /// Refuses bytes behind the last field.
    pub(super) fn finish(&self) -> Result<(), Error> {
        let left = self.bytes.len() - self.at;
        match left {
            0 => Ok(()),
            _ => Err(self.unexpected("bytes left over", 0, left as u64, Expected::Exactly(0))),
        }
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Error> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(field, N)?);
        Ok(array)
    }
}

fn exactly(value: u32) -> Expected {
    Expected::Exactly(value.into())
}

/// Fills up to the next unit of `unit` bytes with zeros.
pub(super) fn pad(bytes: &mut Vec<u8>, unit: usize) {
    bytes.resize(bytes.len().next_multiple_of(unit), 0);
}

/// Words as bytes.
pub(super) fn put_words(bytes: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
}

/// Bytes as words; a rest of less than a word is left out.
pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word))
}
