//! Free blocks by size: sixteen bins per power of two, and a bit for each that is not empty.

/// More bins than blocks of 2^40 bytes need.
const BINS: usize = 640;
const WORDS: usize = BINS / 64;

/// The end of a list.
pub(super) const NONE: u32 = u32::MAX;

/// The first block of every bin.
#[derive(Debug)]
pub(super) struct Bins {
    heads: Vec<u32>,
    filled: [u64; WORDS],
}

impl Default for Bins {
    fn default() -> Self {
        Self { heads: vec![NONE; BINS], filled: [0; WORDS] }
    }
}

impl Bins {
    /// The bin of blocks of so many units. Larger blocks never have a smaller bin.
    #[inline]
    pub(super) fn of(units: u64) -> usize {
        if units < 16 {
            return units as usize;
        }
        let power = units.ilog2() as usize;
        let step = (units >> (power - 4)) as usize & 15;
        (power - 3) * 16 + step
    }

    /// The first block of a bin.
    #[inline]
    pub(super) fn head(&self, bin: usize) -> u32 {
        self.heads[bin]
    }

    /// Makes `head` the first block of a bin.
    #[inline]
    pub(super) fn set_head(&mut self, bin: usize, head: u32) {
        self.heads[bin] = head;
        let bit = 1 << (bin % 64);
        match head {
            NONE => self.filled[bin / 64] &= !bit,
            _ => self.filled[bin / 64] |= bit,
        }
    }

    /// The first bin from `bin` on that is not empty.
    #[inline]
    pub(super) fn next_filled(&self, bin: usize) -> Option<usize> {
        let mut word = bin / 64;
        let mut bits = self.filled.get(word)? & (u64::MAX << (bin % 64));
        while bits == 0 {
            word += 1;
            bits = *self.filled.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// The last bin that is not empty.
    pub(super) fn last_filled(&self) -> Option<usize> {
        let word = self.filled.iter().rposition(|&bits| bits != 0)?;
        Some(word * 64 + 63 - self.filled[word].leading_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_blocks_have_no_smaller_bin() {
        let mut last = 0;
        for units in 1..100_000 {
            assert!(Bins::of(units) >= last, "{units}");
            last = Bins::of(units);
        }
        assert!(Bins::of(1 << 40) < BINS);
    }

    #[test]
    fn filled_bins_are_found_in_order() {
        let mut bins = Bins::default();
        for bin in [3, 64, 200, 639] {
            bins.set_head(bin, 1);
        }
        assert_eq!(bins.next_filled(0), Some(3));
        assert_eq!(bins.next_filled(4), Some(64));
        assert_eq!(bins.next_filled(65), Some(200));
        assert_eq!(bins.next_filled(201), Some(639));
        assert_eq!(bins.last_filled(), Some(639));
        bins.set_head(639, NONE);
        assert_eq!(bins.next_filled(201), None);
        assert_eq!(bins.last_filled(), Some(200));
    }
}
