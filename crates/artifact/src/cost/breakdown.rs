use std::fmt;
use std::ops::AddAssign;

use super::launch;

/// Time of work on a real card, in nanoseconds, divided into kernels, copies, collectives and launches.
///
/// Kernels follow the model that was fitted to measured ones. Copies between host and card, fills,
/// collectives and launches are [assumed](super::ASSUMPTIONS).
///
/// ```
/// use spyre_artifact::cost::{CostBreakdown, transfer};
///
/// let mut cost = CostBreakdown::default();
/// cost.add_copy(transfer(25_000));
/// cost.add_kernel(320_000);
/// let said = "351.0 us: kernels 320.0 us, copies 11.0 us (assumed), launches 20.0 us (assumed)";
/// assert_eq!(cost.to_string(), said);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostBreakdown {
    /// Time of kernels.
    pub kernels: u64,
    /// Time of copies and fills.
    pub copies: u64,
    /// Time of collectives among cards.
    pub collectives: u64,
    /// Time before kernels run: each launch takes the same.
    pub launches: u64,
}

impl CostBreakdown {
    /// Counts a kernel that is launched once.
    pub fn add_kernel(&mut self, nanoseconds: u64) {
        self.kernels = self.kernels.saturating_add(nanoseconds);
        self.launches = self.launches.saturating_add(launch());
    }

    /// Counts a copy or a fill.
    pub fn add_copy(&mut self, nanoseconds: u64) {
        self.copies = self.copies.saturating_add(nanoseconds);
    }

    /// Counts a collective.
    pub fn add_collective(&mut self, nanoseconds: u64) {
        self.collectives = self.collectives.saturating_add(nanoseconds);
    }

    /// All of it, one after the other.
    pub fn total(self) -> u64 {
        let parts = [self.kernels, self.copies, self.collectives, self.launches];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

impl AddAssign for CostBreakdown {
    fn add_assign(&mut self, other: Self) {
        self.kernels = self.kernels.saturating_add(other.kernels);
        self.copies = self.copies.saturating_add(other.copies);
        self.collectives = self.collectives.saturating_add(other.collectives);
        self.launches = self.launches.saturating_add(other.launches);
    }
}

impl fmt::Display for CostBreakdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [total, kernels, copies, launches] =
            [self.total(), self.kernels, self.copies, self.launches].map(Nanoseconds);
        write!(f, "{total}: kernels {kernels}, copies {copies} (assumed), ")?;
        if self.collectives > 0 {
            write!(f, "collectives {} (assumed), ", Nanoseconds(self.collectives))?;
        }
        write!(f, "launches {launches} (assumed)")
    }
}

/// A time as people read it.
struct Nanoseconds(u64);

impl fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{} ns", self.0),
            1_000..1_000_000 => write!(f, "{:.1} us", time / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.2} ms", time / 1e6),
            _ => write!(f, "{:.2} s", time / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_launch_takes_the_same() {
        let mut cost = CostBreakdown::default();
        cost.add_kernel(5);
        cost.add_kernel(7);
        assert_eq!(cost, CostBreakdown { kernels: 12, launches: 2 * launch(), ..cost });
        cost += cost;
        assert_eq!(cost.total(), 24 + 4 * launch());
    }

    #[test]
    fn collectives_are_named_where_there_are_some() {
        let mut cost = CostBreakdown::default();
        cost.add_copy(1000);
        assert!(!cost.to_string().contains("collectives"));
        cost.add_collective(2000);
        assert_eq!(cost.total(), 3000);
        assert!(cost.to_string().contains("collectives 2.0 us (assumed)"), "{cost}");
    }
}
