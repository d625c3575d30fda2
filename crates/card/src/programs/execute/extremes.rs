//! Extremes of numbers of which some are NaN.

/// The smaller and the larger one of two, where NaN is both.
pub(in crate::programs) trait NanWins {
    fn smaller(self, other: Self) -> Self;
    fn larger(self, other: Self) -> Self;
}

macro_rules! nan_wins {
    ($type:ident) => {
        impl NanWins for $type {
            #[inline(always)]
            fn smaller(self, other: Self) -> Self {
                let smaller = if self < other { self } else { other };
                if self.is_nan() { self } else { smaller }
            }

            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                let larger = if self > other { self } else { other };
                if self.is_nan() { self } else { larger }
            }
        }
    };
}

nan_wins!(f32);
nan_wins!(f64);
