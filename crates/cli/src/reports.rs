//! Reports on standard output, for people and as JSON.

pub(crate) mod cost_report;
pub(crate) mod prediction;
pub(crate) mod screen;
pub(crate) mod text;
