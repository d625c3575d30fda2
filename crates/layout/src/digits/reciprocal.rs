/// Number that many others are divided by: for those below 2^32 a product with its reciprocal takes the place of a
/// division, which costs ten times as much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reciprocal {
    by: usize,
    /// 2^64 / `by`, rounded up; zero where that does not do.
    scaled: u64,
}

impl Reciprocal {
    /// The reciprocal of a number that is not zero.
    pub(crate) fn new(by: usize) -> Self {
        let is_short = by > 1 && u32::try_from(by).is_ok();
        let scaled = if is_short { u64::MAX / by as u64 + 1 } else { 0 };
        Self { by, scaled }
    }

    /// `number / by`.
    #[inline]
    pub(crate) fn quotient(self, number: usize) -> usize {
        if self.by == 1 {
            number
        } else if self.scaled != 0 && u32::try_from(number).is_ok() {
            // The error of the reciprocal is below 2^-64 times `by`, that of the product below `by` / 2^32 of one.
            ((u128::from(self.scaled) * number as u128) >> 64) as usize
        } else {
            number / self.by
        }
    }

    /// `number / by` if that is whole.
    #[inline]
    pub(crate) fn whole_quotient(self, number: usize) -> Option<usize> {
        let quotient = self.quotient(number);
        (quotient * self.by == number).then_some(quotient)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn borders_of_32_bits_are_divided_exactly() {
        let most = u32::MAX as usize;
        for by in [1, 2, 3, 7, 32, 641, 65_535, 65_537, most - 1, most, most + 1, usize::MAX] {
            for number in
                [0, 1, by - 1, by, by.saturating_add(1), most - 1, most, most + 1, usize::MAX]
            {
                assert_eq!(Reciprocal::new(by).quotient(number), number / by, "{number} / {by}");
            }
        }
    }

    proptest! {
        #[test]
        fn quotients_are_those_of_divisions(number: u64, by in 1..u64::MAX, shifts in (0..64_u32, 0..63_u32)) {
            let number = (number >> shifts.0) as usize;
            let by = ((by >> shifts.1) as usize).max(1);
            let reciprocal = Reciprocal::new(by);
            prop_assert_eq!(reciprocal.quotient(number), number / by);
            prop_assert_eq!(reciprocal.whole_quotient(number), number.is_multiple_of(by).then(|| number / by));
        }
    }
}
