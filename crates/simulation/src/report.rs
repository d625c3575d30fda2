use std::fmt;
use std::ops::AddAssign;

/// Counts of what happened in one run, or in many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Calls that the driver made.
    pub operations: u64,
    /// Runs.
    pub seeds: u64,
    /// Blocks that were queued.
    pub blocks: u64,
    /// Blocks that ended with a fault of their own.
    pub faults: u64,
    /// Faults that a call reported.
    pub reported: u64,
    /// Blocks that hung and were ended.
    pub hangs: u64,
    /// Devices that were lost.
    pub losses: u64,
    /// Resets of the device.
    pub resets: u64,
    /// Bad calls that were refused.
    pub refused: u64,
    /// Reads of poisoned memory that were refused.
    pub poisoned: u64,
    /// Allocations that were given out.
    pub allocations: u64,
    /// Allocations in memory that blocks of a freed one still use, on the same stream.
    pub reused: u64,
    /// Bytes that were read and compared.
    pub compared_bytes: u64,
}

impl AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.seeds += other.seeds;
        self.blocks += other.blocks;
        self.faults += other.faults;
        self.reported += other.reported;
        self.hangs += other.hangs;
        self.losses += other.losses;
        self.resets += other.resets;
        self.refused += other.refused;
        self.poisoned += other.poisoned;
        self.allocations += other.allocations;
        self.reused += other.reused;
        self.compared_bytes += other.compared_bytes;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} operations, {} seeds, {} blocks, {} faults, {} hangs, {} losses, {} resets, \
             {} bad inputs refused, {} reads of poisoned memory refused",
            grouped(self.operations),
            grouped(self.seeds),
            grouped(self.blocks),
            grouped(self.faults),
            grouped(self.hangs),
            grouped(self.losses),
            grouped(self.resets),
            grouped(self.refused),
            grouped(self.poisoned),
        )
    }
}

/// A number with a comma after every three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(20_000_000), "20,000,000");
    }
}
