use std::fmt;

/// An entry of `SPYRE_DEVICES` that exposes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dropped {
    entry: String,
    why: Why,
}

/// Reason why an entry exposes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Duplicate,
    NoSuchCard { cards: u16 },
}

impl Dropped {
    pub(super) fn new(entry: &str, why: Why) -> Self {
        Self { entry: entry.to_owned(), why }
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why {
            Why::Duplicate => write!(f, "{} (given twice)", self.entry),
            Why::NoSuchCard { cards: 1 } => write!(f, "{} (the only card is 0)", self.entry),
            Why::NoSuchCard { cards } => {
                write!(f, "{} (the cards are 0 to {})", self.entry, cards - 1)
            }
        }
    }
}
