//! Times that no one has published: an assumption, and marked as such.

use super::{MEMORY_RATE, whole};

/// Human-readable list of the assumptions.
pub const ASSUMPTIONS: &str = "25 GB/s between host and card, 10 us before a transfer's first byte, \
     20 us before a fill's, 20 us for a launch, its correction included; programs are there already";

/// Bytes per nanosecond between host and card.
const TRANSFER_RATE: f64 = 25.0;
/// Time of a transfer before its first byte.
const TRANSFER_NANOSECONDS: f64 = 10_000.0;
/// Time of a fill before its first byte.
const FILL_NANOSECONDS: f64 = 20_000.0;
/// Time of a launch before its program runs: the control blocks of its correction's inputs and of its
/// program. It is the same for one that needs no correction, which a real card's runtime would not leave out.
const LAUNCH_NANOSECONDS: u64 = 20_000;
/// Copies from device memory to device memory: bytes per nanosecond, both ways counted. Measured.
const COPY_RATE: f64 = 118.0;

/// Nanoseconds of a transfer between host and card, or from card to card.
pub fn transfer(bytes: u64) -> u64 {
    whole(TRANSFER_NANOSECONDS + bytes as f64 / TRANSFER_RATE)
}

/// Nanoseconds of a launch, without its kernel.
pub fn launch() -> u64 {
    LAUNCH_NANOSECONDS
}

/// Nanoseconds of a fill.
pub fn fill(bytes: u64) -> u64 {
    whole(FILL_NANOSECONDS + bytes as f64 / MEMORY_RATE)
}

/// Nanoseconds of a copy in device memory.
pub fn copy(bytes: u64) -> u64 {
    whole(2.0 * bytes as f64 / COPY_RATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_starts_late_and_goes_at_its_rate() {
        assert_eq!([transfer(0), transfer(25_000)], [10_000, 11_000]);
        assert_eq!([fill(0), copy(118), launch()], [20_000, 2, 20_000]);
    }
}
