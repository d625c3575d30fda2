//! Ops that move elements: factories, casts, indices, permutations.

pub(crate) mod casts;
pub(crate) mod data_dependent;
pub(crate) mod indexing;
pub(crate) mod making;
pub(crate) mod permuting;
pub(crate) mod rolling;
pub(crate) mod scattering;
