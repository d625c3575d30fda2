/// Bytes of an allocation that the oracle keeps.
pub(crate) const WINDOW_BYTES: usize = 256;

/// The first bytes of an allocation, as far as they are known: what was never written is not.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    values: [u8; WINDOW_BYTES],
    is_known: [bool; WINDOW_BYTES],
}

impl Window {
    pub(crate) fn unknown() -> Self {
        Self { values: [0; WINDOW_BYTES], is_known: [false; WINDOW_BYTES] }
    }

    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.values[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.is_known[offset..offset + bytes.len()].fill(true);
    }

    /// Copies knowledge, too.
    pub(crate) fn copy(&mut self, offset: usize, from: &Self, source: usize, bytes: usize) {
        self.values[offset..offset + bytes].copy_from_slice(&from.values[source..source + bytes]);
        self.is_known[offset..offset + bytes]
            .copy_from_slice(&from.is_known[source..source + bytes]);
    }

    /// Adds one to the first word.
    pub(crate) fn count(&mut self) {
        if self.is_known[..8].iter().all(|&is_known| is_known) {
            let word = u64::from_le_bytes(self.values[..8].try_into().expect("eight bytes"));
            self.values[..8].copy_from_slice(&word.wrapping_add(1).to_le_bytes());
        } else {
            self.is_known[..8].fill(false);
        }
    }

    /// The first byte that is known to be another.
    pub(crate) fn difference(&self, offset: usize, seen: &[u8]) -> Option<(usize, u8, u8)> {
        let at = (0..seen.len())
            .find(|&at| self.is_known[offset + at] && self.values[offset + at] != seen[at])?;
        Some((offset + at, self.values[offset + at], seen[at]))
    }
}
