use std::fmt;

/// An entry of `SPYRE_DEVICES` that exposes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IgnoredEntry {
    entry: String,
    reason: IgnoreReason,
}

/// Reason why an entry exposes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IgnoreReason {
    Duplicate,
    NoSuchCard { cards: u16 },
}

impl IgnoredEntry {
    pub(super) fn new(entry: &str, reason: IgnoreReason) -> Self {
        Self { entry: entry.to_owned(), reason }
    }
}

impl fmt::Display for IgnoredEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            IgnoreReason::Duplicate => write!(f, "{} (given twice)", self.entry),
            IgnoreReason::NoSuchCard { cards: 1 } => {
                write!(f, "{} (the only card is 0)", self.entry)
            }
            IgnoreReason::NoSuchCard { cards } => {
                write!(f, "{} (the cards are 0 to {})", self.entry, cards - 1)
            }
        }
    }
}
