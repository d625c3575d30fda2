//! What a kernel would take on a real card, for people and as JSON.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use spyre::artifact::cost::ASSUMPTIONS;
use spyre::compiler::{CompileOptions, Kernel};

use crate::text;

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

/// What is told of a kernel's time.
#[derive(Debug, Serialize)]
pub(crate) struct PredictedReport {
    pattern: &'static str,
    nanoseconds: f64,
    memory_nanoseconds: f64,
    products_nanoseconds: f64,
    ring_nanoseconds: f64,
    /// What measured times may be.
    least_nanoseconds: f64,
    most_nanoseconds: f64,
    error: String,
    is_lower_bound: bool,
    read_bytes: u64,
    written_bytes: u64,
    products: u64,
    /// What is not counted, since nobody has published it.
    assumed: &'static str,
}

impl PredictedReport {
    pub(crate) fn new(
        kernel: &Kernel,
        options: &CompileOptions,
        extents: &[(&str, u64)],
    ) -> Result<Self> {
        let predicted = kernel.predict(options, extents)?;
        let (work, time, error) = (predicted.work, predicted.time, predicted.error);
        let [least, most] = error.around(time.total());
        Ok(Self {
            pattern: work.pattern.name(),
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

impl fmt::Display for PredictedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time =
            |nanoseconds: f64| text::duration(Duration::from_nanos(nanoseconds.ceil() as u64));
        let (total, pattern, error) = (time(self.nanoseconds), self.pattern, &self.error);
        writeln!(f, "predicted on a real card: {total} ({pattern}, {error})")?;
        let bytes = [self.read_bytes, self.written_bytes].map(text::bytes);
        let (memory, products) = (time(self.memory_nanoseconds), time(self.products_nanoseconds));
        writeln!(f, "  memory    {memory}: {} read, {} written", bytes[0], bytes[1])?;
        writeln!(f, "  products  {products}: {} multiplications", self.products)?;
        writeln!(f, "  ring      {}", time(self.ring_nanoseconds))?;
        writeln!(f, "  assumed, and not counted: {}", self.assumed)
    }
}
