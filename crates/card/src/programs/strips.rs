//! Straight-line blocks, strip by strip: what a block makes of 1,024 elements stays in a core's first cache until
//! the block is done with them.
//!
//! When a program is loaded, [`plan`] cuts its blocks into segments of operations on strips, and instructions
//! that need whole tiles. Values that no later instruction reads have a strip of [`kernels`]' scratch only;
//! float32 that are loaded or stored are read and made where they lie in device memory. When a tile's turn
//! comes, [`run`] binds the places of a segment to addresses and goes over the tile, column of sticks by column
//! of sticks. The extents of a tile decide if it is run so; layouts do not: a tile that does not lie in whole
//! sticks is copied first. So results have the same bits in every layout.

pub(in crate::programs) mod buffers;
pub(in crate::programs) mod plan;
pub(in crate::programs) mod run;

mod functions;
mod kernels;
mod lines;
mod ops;
mod prefetch;
mod segment;
pub(in crate::programs) mod shape;
