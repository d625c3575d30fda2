use std::fmt;

use crate::DeviceHandle;

/// Some bytes of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceRange {
    /// The allocation.
    pub handle: DeviceHandle,
    /// Bytes from its start to the first one.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl DeviceRange {
    /// The first so many bytes of an allocation.
    pub fn start_of(handle: DeviceHandle, bytes: u64) -> Self {
        Self { handle, offset: 0, bytes }
    }

    /// Returns true if the two share a byte. Ranges of different allocations never do.
    pub fn overlaps(&self, other: &Self) -> bool {
        let reaches = |a: &Self, b: &Self| a.offset < b.offset.saturating_add(b.bytes);
        self.handle == other.handle
            && self.bytes > 0
            && other.bytes > 0
            && reaches(self, other)
            && reaches(other, self)
    }
}

impl fmt::Display for DeviceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at offset {} of {}", self.bytes, self.offset, self.handle)
    }
}
