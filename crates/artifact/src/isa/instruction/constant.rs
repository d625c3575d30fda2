use std::fmt;
use std::hash::{Hash, Hasher};

use super::Lane;

/// A number in the code, or in a patched word: read by the lane of the register that takes it.
///
/// Both float lanes take doubles; `f32` rounds once. Two constants are equal when their bits are,
/// so that NaN equals itself.
#[derive(Clone, Copy, Debug)]
pub enum Constant {
    /// Value for `f32` and `f64`.
    Float(f64),
    /// Value for `i64`.
    Int(i64),
    /// Value for `bool`.
    Bool(bool),
}

impl Constant {
    /// Constant that the word holds for a register of this lane; `None` for a truth value beyond one.
    pub fn from_word(lane: Lane, word: u64) -> Option<Self> {
        Self::from_code(Self::code_for(lane), word)
    }

    /// Its bits as one word.
    pub fn word(self) -> u64 {
        match self {
            Self::Float(value) => value.to_bits(),
            Self::Int(value) => value.cast_unsigned(),
            Self::Bool(value) => value.into(),
        }
    }

    /// Returns true if a register of this lane takes it.
    pub fn fits(self, lane: Lane) -> bool {
        self.code() == Self::code_for(lane)
    }

    pub(super) fn code(self) -> u8 {
        match self {
            Self::Float(_) => 0,
            Self::Int(_) => 1,
            Self::Bool(_) => 2,
        }
    }

    pub(super) fn from_code(code: u8, word: u64) -> Option<Self> {
        match code {
            0 => Some(Self::Float(f64::from_bits(word))),
            1 => Some(Self::Int(word.cast_signed())),
            2 if word <= 1 => Some(Self::Bool(word == 1)),
            _ => None,
        }
    }

    fn code_for(lane: Lane) -> u8 {
        match lane {
            Lane::F32 | Lane::F64 => 0,
            Lane::I64 => 1,
            Lane::Bool => 2,
        }
    }
}

impl PartialEq for Constant {
    fn eq(&self, other: &Self) -> bool {
        (self.code(), self.word()) == (other.code(), other.word())
    }
}

impl Eq for Constant {}

impl Hash for Constant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.code(), self.word()).hash(state);
    }
}

impl From<f64> for Constant {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<i64> for Constant {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<bool> for Constant {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(value) if value.is_nan() => write!(f, "nan:{:#018x}", value.to_bits()),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Bool(value) => write!(f, "{value}"),
        }
    }
}
