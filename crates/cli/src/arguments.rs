//! Values of a command line: plans, tensors, sizes and scalars, checked against what a plan expects.

pub(crate) mod fill;
pub(crate) mod inputs;
pub(crate) mod outputs;
pub(crate) mod plan_source;
pub(crate) mod scalars;
pub(crate) mod sizes;
