use std::str::FromStr;

use crate::EnvironmentError;

/// What `SPYRE_MEMORY_LIMIT` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryLimit {
    Bytes(u64),
    /// Of what is available.
    Percent(u8),
}

impl Default for MemoryLimit {
    /// The rest is for the program itself, and for what it does not tell us of.
    fn default() -> Self {
        Self::Percent(80)
    }
}

impl FromStr for MemoryLimit {
    type Err = EnvironmentError;

    fn from_str(value: &str) -> Result<Self, EnvironmentError> {
        let text = value.trim();
        let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        let limit = number.parse().ok().and_then(|number| Self::of(number, unit.trim_start()));
        limit.ok_or_else(|| EnvironmentError::MemoryLimit { value: value.to_owned() })
    }
}

impl MemoryLimit {
    /// `None` for what no card could work with: nothing, more than there is, an unknown unit.
    fn of(number: u64, unit: &str) -> Option<Self> {
        let bytes = |power: u32| Some(Self::Bytes(number.checked_mul(1 << power)?));
        match unit.to_ascii_uppercase().as_str() {
            _ if number == 0 => None,
            "%" => u8::try_from(number).ok().filter(|&percent| percent <= 100).map(Self::Percent),
            "" | "B" => bytes(0),
            "K" | "KB" | "KIB" => bytes(10),
            "M" | "MB" | "MIB" => bytes(20),
            "G" | "GB" | "GIB" => bytes(30),
            "T" | "TB" | "TIB" => bytes(40),
            _ => None,
        }
    }
}
