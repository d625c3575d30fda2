use std::fmt;
use std::ops::AddAssign;

use crate::{Findings, Kind};

/// Outcomes of inputs of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of inputs.
    pub inputs: u64,
    /// Refused with an error; nothing was queued.
    pub refused: u64,
    /// Taken, and ended well.
    pub ran: u64,
    /// Taken, and failed their stream.
    pub faulted: u64,
}

/// Outcomes of inputs of all kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    tallies: [Tally; Kind::ALL.len()],
}

impl Report {
    pub(crate) fn of(kind: Kind, tally: Tally) -> Self {
        let mut report = Self::default();
        report.tallies[kind as usize] = tally;
        report
    }

    /// The inputs of one kind.
    pub fn of_kind(&self, kind: Kind) -> Tally {
        self.tallies[kind as usize]
    }

    /// Number of inputs, of all kinds.
    pub fn inputs(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.inputs).sum()
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.inputs += other.inputs;
        self.refused += other.refused;
        self.ran += other.ran;
        self.faulted += other.faulted;
    }
}

impl AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        for (tally, other) in self.tallies.iter_mut().zip(other.tallies) {
            *tally += other;
        }
    }
}

/// A line for each kind that there was.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_kind = Kind::ALL.into_iter().map(|kind| (kind, self.of_kind(kind)));
        for (nth, (kind, tally)) in of_kind.filter(|(_, tally)| tally.inputs > 0).enumerate() {
            let line = if nth == 0 { "" } else { "\n" };
            let [inputs, refused, ran, faulted] =
                [tally.inputs, tally.refused, tally.ran, tally.faulted].map(grouped);
            write!(
                f,
                "{line}{kind:<10} {inputs:>11} inputs {refused:>11} refused {ran:>11} ran \
                 {faulted:>11} faulted"
            )?;
        }
        Ok(())
    }
}

/// The last line.
impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.took.as_secs_f64();
        write!(
            f,
            "{} hostile inputs: 0 panics, 0 hangs, 0 bytes touched that were not given; the largest \
             allocation {:.1} MiB, resident growth {:.1} MiB, {seconds:.1} s ({} inputs/s)",
            grouped(self.report.inputs()),
            mebibytes(self.largest_allocation_bytes),
            mebibytes(self.resident_growth_bytes),
            grouped((self.report.inputs() as f64 / seconds) as u64),
        )
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// A number with a comma after every three digits.
pub(crate) fn grouped(number: u64) -> String {
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
    fn a_report_has_a_line_for_each_kind_that_there_was() {
        let tally = Tally { inputs: 1_234_567, refused: 1_000_000, ran: 234_567, faulted: 0 };
        let mut report = Report::of(Kind::Words, tally);
        assert_eq!(report.to_string().lines().count(), 1);
        report += Report::of(Kind::Plans, tally);
        assert_eq!(report.inputs(), 2 * 1_234_567);
        let text = report.to_string();
        assert!(text.starts_with("plans        1,234,567 inputs   1,000,000 refused"), "{text}");
        assert_eq!(text.lines().count(), 2);
    }
}
