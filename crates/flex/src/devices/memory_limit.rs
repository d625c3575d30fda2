use std::str::FromStr;

use super::memory_size;
use crate::EnvironmentError;

/// Value of `SPYRE_MEMORY_LIMIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryLimit {
    Bytes(u64),
    /// Share of what is available.
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
        let limit = match memory_size::split(value) {
            (number, "%") => number.parse().ok().filter(|&p| p <= 100).map(Self::Percent),
            _ => memory_size::parse_bytes(value).map(Self::Bytes),
        };
        // No card could work with nothing.
        let limit = limit.filter(|limit| !matches!(limit, Self::Bytes(0) | Self::Percent(0)));
        limit.ok_or_else(|| EnvironmentError::MemoryLimit { value: value.to_owned() })
    }
}
