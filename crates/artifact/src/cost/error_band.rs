use std::fmt;

/// Distance of measured times from predicted ones, as a fraction of the predicted ones.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ErrorBand {
    /// Longer or shorter by as much.
    Around(f64),
    /// Never shorter: longer by about as much as this.
    Above {
        /// Smallest excess.
        least: f64,
        /// Largest excess.
        most: f64,
    },
}

impl ErrorBand {
    /// Returns true if a predicted time is a lower bound.
    pub fn is_lower_bound(self) -> bool {
        matches!(self, Self::Above { .. })
    }

    /// The least and the most that a time may be which was predicted to be so long.
    pub fn around(self, time: f64) -> [f64; 2] {
        match self {
            Self::Around(part) => [time * (1.0 - part), time * (1.0 + part)],
            Self::Above { most, .. } => [time, time * (1.0 + most)],
        }
    }
}

impl fmt::Display for ErrorBand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the last digit of a product that is not exact.
        let percent = |part: f64| (part * 1000.0).round() / 10.0;
        match *self {
            Self::Around(part) => write!(f, "+-{} %", percent(part)),
            Self::Above { least, most } => {
                write!(f, "a lower bound: +{} to {} %", percent(least), percent(most))
            }
        }
    }
}
