use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::str::FromStr;

use sha2::{Digest, Sha256};
use spyre_compiler::{CompileOptions, Kernel};

use super::source::Source;

const BYTES: usize = 32;

/// Key by which a plan is found: a digest of all that it depends on.
///
/// To make one takes microseconds, as the kernel is printed for it; to find a plan by it takes
/// nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlanKey([u8; BYTES]);

impl PlanKey {
    /// The key of what this compiler makes of a kernel.
    pub fn new(kernel: &Kernel, options: &CompileOptions) -> Self {
        Source::new(kernel, options).key()
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

/// Hexadecimal digits; with a precision, as many of them.
impl fmt::Display for PlanKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        f.pad(&digits)
    }
}

impl fmt::Debug for PlanKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlanKey({self})")
    }
}

impl FromStr for PlanKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 2 * BYTES || !text.bytes().all(is_digit) {
            return Err(NoKey);
        }
        let mut bytes = [0; BYTES];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().as_chunks::<2>().0) {
            let digit = |at: usize| char::from(digits[at]).to_digit(16).unwrap_or(0) as u8;
            *byte = digit(0) << 4 | digit(1);
        }
        Ok(Self(bytes))
    }
}

/// A text that is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key is 64 hexadecimal digits")]
pub struct NoKey;

impl Hash for PlanKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        state.write_u64(u64::from_le_bytes([a, b, c, d, e, f, g, h]));
    }
}

/// Takes the key's own bits: a digest is spread as well as any hash.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyHasher(u64);

pub(super) type KeyHashing = BuildHasherDefault<KeyHasher>;

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, bits: u64) {
        self.0 ^= bits;
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_written() {
        let key = PlanKey::of_bytes(b"something");
        assert_eq!(key.to_string().parse(), Ok(key));
        assert_eq!(format!("{key:.12}").len(), 12);
        for text in ["", "0", &"g".repeat(64), &"A".repeat(64), &"0".repeat(63), "é"] {
            assert_eq!(text.parse::<PlanKey>(), Err(NoKey), "{text}");
        }
    }
}
