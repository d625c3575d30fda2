//! Limits of a program.

/// The most dims a program walks over, and so the deepest nest of loops.
pub const MAX_DIMS: usize = 16;
/// The most dims that move one tensor.
pub const MAX_OPERAND_DIMS: usize = 8;
/// The most tile buffers of a program.
pub const MAX_REGISTERS: usize = 64;
/// The most tensors of a program.
pub const MAX_OPERANDS: usize = 32;
/// The most patched words, besides addresses and extents, of a program.
pub const MAX_SCALARS: usize = 256;
/// The most instructions of a program.
pub const MAX_INSTRUCTIONS: usize = 64 * 1024;
/// The deepest nest of skips.
pub const MAX_SKIP_DEPTH: usize = 8;
