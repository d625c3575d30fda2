/// SplitMix64: the same seed gives the same numbers, on any machine.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number in `0..limit`; zero if the limit is.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit.max(1) as u64) as usize
    }

    /// True once in so many times.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// A number that a check may have forgotten: small, at an edge of its type, or any.
    pub(crate) fn word(&mut self) -> u64 {
        let near = self.number() % 5;
        match self.below(6) {
            0 => near,
            1 => near.wrapping_neg(),
            2 => (1_u64 << self.below(64)).wrapping_add(near).wrapping_sub(2),
            3 => i64::MAX as u64 - 2 + near,
            4 => self.number() % 300,
            _ => self.number(),
        }
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }
}

/// Spreads every bit of a number over all of another.
fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
