//! Predicted time of a kernel on a real card, for people and as JSON.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use spyre::artifact::cost::ASSUMPTIONS;
use spyre::compiler::{CompileOptions, Kernel};

use crate::reports::cost_report::CostReport;
use crate::reports::text;

/// Extents as in `m=512,n=4096`.
pub(crate) fn extents(given: &str) -> Result<Vec<(&str, u64)>> {
    let extent = |part| {
        let (name, number): (&str, &str) = str::split_once(part, '=').with_context(|| {
            format!("{part:?} is no extent: give a dim and its length, as in m=512")
        })?;
        let length = number.trim().parse().with_context(|| format!("{part:?}"))?;
        Ok((name.trim(), length))
    };
    given.split(',').filter(|part| !part.trim().is_empty()).map(extent).collect()
}

/// Report of a kernel's predicted time.
#[derive(Debug, Serialize)]
pub(crate) struct PredictionReport {
    pattern: &'static str,
    /// Cost of one launch.
    cost: CostReport,
    /// Programs that it runs: one for each step and tile.
    launches: u64,
    /// Time of the kernel alone, and of its parts.
    nanoseconds: f64,
    memory_nanoseconds: f64,
    products_nanoseconds: f64,
    ring_nanoseconds: f64,
    /// Bounds of measured times.
    least_nanoseconds: f64,
    most_nanoseconds: f64,
    error: String,
    is_lower_bound: bool,
    read_bytes: u64,
    written_bytes: u64,
    products: u64,
    /// Assumed times of copies and launches, since none are published.
    assumed: &'static str,
}

impl PredictionReport {
    pub(crate) fn new(
        kernel: &Kernel,
        options: &CompileOptions,
        extents: &[(&str, u64)],
    ) -> Result<Self> {
        let predicted = kernel.predict(options, extents)?;
        let work = predicted.work;
        let time = predicted.time;
        let error = predicted.error;
        let [least, most] = error.around(time.total());
        Ok(Self {
            pattern: work.pattern.name(),
            cost: predicted.cost().into(),
            launches: predicted.launches,
            nanoseconds: time.total(),
            memory_nanoseconds: time.memory,
            products_nanoseconds: time.products,
            ring_nanoseconds: time.ring,
            least_nanoseconds: least,
            most_nanoseconds: most,
            error: error.to_string(),
            is_lower_bound: error.is_lower_bound(),
            read_bytes: work.read_bytes,
            written_bytes: work.written_bytes,
            products: work.products,
            assumed: ASSUMPTIONS,
        })
    }
}

impl fmt::Display for PredictionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time =
            |nanoseconds: f64| text::duration(Duration::from_nanos(nanoseconds.ceil() as u64));
        writeln!(f, "predicted on a real card: {}", self.cost)?;
        let kernel = time(self.nanoseconds);
        let pattern = self.pattern;
        let error = &self.error;
        writeln!(f, "  kernel    {kernel} ({pattern}, {error})")?;
        let bytes = [self.read_bytes, self.written_bytes].map(text::bytes);
        let memory = time(self.memory_nanoseconds);
        let products = time(self.products_nanoseconds);
        writeln!(f, "  memory    {memory}: {} read, {} written", bytes[0], bytes[1])?;
        writeln!(f, "  products  {products}: {} multiplications", self.products)?;
        writeln!(f, "  ring      {}", time(self.ring_nanoseconds))?;
        let launches = text::count(self.launches as usize, "launch").replace("launchs", "launches");
        writeln!(f, "  {launches}, no copies; assumed: {}", self.assumed)
    }
}
