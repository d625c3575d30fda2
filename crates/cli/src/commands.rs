//! Sub-commands: each makes a report.

pub(crate) mod bench;
pub(crate) mod bundle;
pub(crate) mod cache;
pub(crate) mod compile;
pub(crate) mod info;
pub(crate) mod inspect;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod trace;
