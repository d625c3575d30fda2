//! Matrix products.

pub(in crate::programs) mod amx;
pub(in crate::programs) mod bfloat_tiles;
pub(in crate::programs) mod blocks;
pub(in crate::programs) mod dot;
pub(in crate::programs) mod few_rows;
pub(in crate::programs) mod gemv;
pub(in crate::programs) mod halves;
pub(in crate::programs) mod operands;
pub(in crate::programs) mod packed_sticks;
pub(in crate::programs) mod pairs;
pub(in crate::programs) mod product;
pub(in crate::programs) mod stick_format;
pub(in crate::programs) mod widened;
