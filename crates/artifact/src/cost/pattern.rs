use super::{CORES, ErrorBand, MEMORY_RATE};

/// Access pattern of a kernel in memory: what its speed depends on beside its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pattern {
    /// Each element by itself.
    #[default]
    Pointwise,
    /// Elements as they are, to a tensor that lies alike, or that repeats them.
    Copy {
        /// Rows of the result.
        rows: u64,
        /// Elements of each.
        columns: u64,
    },
    /// Elements as they are, to a tensor whose sticks run along another dim.
    Restickify,
    /// Sums, or the like, along the sticks.
    RowReduction {
        /// Number of rows.
        rows: u64,
        /// Sticks of each.
        sticks: u64,
    },
    /// Sums, or the like, across the sticks.
    ColumnReduction {
        /// Elements in each reduction.
        rows: u64,
        /// Sticks of the result.
        sticks: u64,
    },
    /// Reductions whose results are used along what they went over: softmax, norms.
    Fused,
    /// Matrix products.
    Product(Batch),
}

/// Number of products at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Batch {
    /// One.
    #[default]
    One,
    /// This many left sides, and one right side.
    Left(u64),
    /// Both sides are many.
    Both,
}

/// Products per nanosecond of one core, as sustained.
const CORE_RATE: f64 = 1140.0;
/// No pattern that was measured is slower than this, in bytes per nanosecond.
const LEAST_RATE: f64 = 44.0;
/// The part of the speed of reductions that so many cores have.
const FEW_CORES: [(u64, f64); 6] =
    [(32, 1.0), (16, 0.54), (8, 0.54), (4, 0.43), (2, 0.22), (1, 0.11)];

impl Pattern {
    /// Human-readable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pointwise => "pointwise",
            Self::Copy { .. } => "copy",
            Self::Restickify => "restickify",
            Self::RowReduction { .. } => "row reduction",
            Self::ColumnReduction { .. } => "column reduction",
            Self::Fused => "fused reduction",
            Self::Product(Batch::One) => "product",
            Self::Product(_) => "batched product",
        }
    }

    /// Error of the model for kernels of this kind. For products, memory and arithmetic overlap less
    /// than it says.
    pub fn error(self) -> ErrorBand {
        match self {
            Self::Pointwise => ErrorBand::Around(0.085),
            Self::Copy { .. } | Self::Restickify => ErrorBand::Around(0.061),
            Self::RowReduction { .. } | Self::ColumnReduction { .. } => ErrorBand::Around(0.072),
            Self::Fused => ErrorBand::Around(0.21),
            Self::Product(Batch::One) => ErrorBand::Above { least: 0.25, most: 0.3 },
            Self::Product(_) => ErrorBand::Above { least: 0.27, most: 0.4 },
        }
    }

    /// Bytes per nanosecond, both ways counted, where the turns of the bus are part of it.
    pub(super) fn memory_rate(self) -> Option<f64> {
        match self {
            Self::Pointwise | Self::Fused | Self::Product(_) => None,
            Self::Copy { rows, columns } => {
                let rate = 183.5 - 2.8 * log2(columns) - 2.6 * log2(rows);
                Some(rate.clamp(LEAST_RATE, MEMORY_RATE))
            }
            Self::Restickify => Some(116.0),
            Self::RowReduction { rows, sticks } => {
                let rate = 114.0 + 61.0 * (-(rows as f64) / 3700.0).exp();
                Some(rate.min(MEMORY_RATE) * few_cores([rows, sticks]))
            }
            Self::ColumnReduction { rows, sticks } => Some(113.0 * few_cores([sticks, rows])),
        }
    }

    /// Products per nanosecond of one core.
    pub(super) fn product_rate(self) -> f64 {
        match self {
            Self::Product(Batch::Both) => 160.0,
            Self::Product(Batch::Left(count)) if count <= 4 => 705.0,
            Self::Product(Batch::Left(_)) => 470.0,
            _ => CORE_RATE,
        }
    }
}

fn log2(count: u64) -> f64 {
    (count.max(1) as f64).log2()
}

/// Fraction of the full speed when not all cores have a part: they take even ones, of the first dim
/// and then of the second.
fn few_cores(dims: [u64; 2]) -> f64 {
    let cores = dims.iter().fold(1, |cores, &dim| cores * largest_divisor(dim, CORES / cores));
    FEW_CORES.iter().find(|(least, _)| cores >= *least).map_or(1.0, |(_, part)| *part)
}

fn largest_divisor(number: u64, most: u64) -> u64 {
    (1..=most).rev().find(|&divisor| number.is_multiple_of(divisor)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_that_were_measured() {
        let rate = |pattern: Pattern| pattern.memory_rate().expect("a rate of its own");
        let rows = |rows| rate(Pattern::RowReduction { rows, sticks: 64 });
        assert_eq!((rows(0), rows(1 << 40)), (150.0, 114.0));
        assert!((rows(3712) - (114.0 + 61.0 / std::f64::consts::E)).abs() < 0.1);
        assert_eq!(rate(Pattern::ColumnReduction { rows: 4096, sticks: 32 }), 113.0);
        let copy = rate(Pattern::Copy { rows: 4096, columns: 4096 });
        assert!((copy - 118.7).abs() < 1e-9, "{copy}");
        assert_eq!(rate(Pattern::Copy { rows: 1, columns: 1 }), 150.0);
    }

    #[test]
    fn cores_take_even_parts() {
        assert_eq!([few_cores([4096, 1]), few_cores([1, 64])], [1.0, 1.0]);
        assert_eq!([few_cores([1, 1]), few_cores([7, 1]), few_cores([37, 3])], [0.11, 0.43, 0.22]);
        assert_eq!(few_cores([0, 0]), 1.0, "nothing is a part of everything");
    }
}
