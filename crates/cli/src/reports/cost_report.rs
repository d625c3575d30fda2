//! Cost of work on a real card, for people and as JSON: the same words in every report.

use std::fmt;

use serde::Serialize;
use spyre::artifact::cost::CostBreakdown;

/// Kernels, copies and launches apart.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct CostReport {
    kernel_nanoseconds: u64,
    copy_nanoseconds: u64,
    launch_nanoseconds: u64,
    total_nanoseconds: u64,
    /// Names of the fields that are assumed constants rather than modelled after measured kernels.
    assumed: [&'static str; 2],
    #[serde(skip)]
    cost: CostBreakdown,
}

impl From<CostBreakdown> for CostReport {
    fn from(cost: CostBreakdown) -> Self {
        Self {
            kernel_nanoseconds: cost.kernels,
            copy_nanoseconds: cost.copies,
            launch_nanoseconds: cost.launches,
            total_nanoseconds: cost.total(),
            assumed: ["copy_nanoseconds", "launch_nanoseconds"],
            cost,
        }
    }
}

impl fmt::Display for CostReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cost.fmt(f)
    }
}
