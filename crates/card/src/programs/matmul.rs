//! Matrix products.

pub(in crate::programs) mod dot;
pub(in crate::programs) mod gemv;
pub(in crate::programs) mod operands;
pub(in crate::programs) mod product;
