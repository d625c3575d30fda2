use spyre_artifact::Lane;

use crate::{Argument, Number};

/// Description of an argument in a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parameter {
    /// A value by this name; it is of the dtype that the op computes in, and says which.
    Value(&'static str),
    /// A value in the lane that the op computes in, without a say in which: `alpha:s`.
    Silent(&'static str),
    /// A value in this lane: `c:bool`, `n:i64`.
    Of(&'static str, Lane),
    /// Nothing: `-`.
    Nothing,
    /// This word: `'tanh'`.
    Word(&'static str),
    /// Whatever it is: `_`.
    Any,
}

impl Parameter {
    /// Reads one word of a row.
    ///
    /// # Panics
    /// If the table says what means nothing: a test reads all of it.
    pub(crate) fn read(word: &'static str) -> Self {
        if let Some(text) = word.strip_prefix('\'') {
            return Self::Word(text.trim_end_matches('\''));
        }
        match (word, word.split_once(':')) {
            ("-", _) => Self::Nothing,
            ("_", _) => Self::Any,
            (name, None) => Self::Value(name),
            (_, Some((name, "s"))) => Self::Silent(name),
            (_, Some((name, lane))) => {
                let lane = Lane::ALL.into_iter().find(|known| known.name() == lane);
                Self::Of(name, lane.unwrap_or_else(|| panic!("`{word}` names no lane")))
            }
        }
    }

    /// Returns its name in expressions.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Value(name) | Self::Silent(name) | Self::Of(name, _) => Some(name),
            Self::Nothing | Self::Word(_) | Self::Any => None,
        }
    }

    /// Returns true if complex numbers are two of it.
    pub(crate) fn has_parts(self) -> bool {
        matches!(self, Self::Value(_) | Self::Silent(_))
    }

    /// Returns true if an argument can be it, in a row of complex numbers or in another one.
    pub(crate) fn takes(self, argument: &Argument<'_>, may_be_complex: bool) -> bool {
        match self {
            Self::Value(_) | Self::Silent(_) | Self::Of(..) => match argument {
                // What has no say in the dtype is a number to PyTorch, also as a tensor.
                Argument::Tensor(tensor) => {
                    !matches!(self, Self::Silent(_)) || tensor.size.is_empty()
                }
                Argument::Number(number) => {
                    may_be_complex && self.has_parts() || !Number::is_complex(number)
                }
                _ => false,
            },
            Self::Nothing => matches!(argument, Argument::None),
            Self::Word(word) => matches!(argument, Argument::String(text) if *text == word),
            Self::Any => true,
        }
    }
}
