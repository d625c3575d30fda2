//! Elements of operands in device memory: where they lie, and how tiles are loaded and stored.

pub(in crate::programs) mod axes;
pub(in crate::programs) mod coordinates;
pub(in crate::programs) mod gather;
pub(in crate::programs) mod nest;
pub(in crate::programs) mod operand;
pub(in crate::programs) mod prefetch;
pub(in crate::programs) mod scatter;
pub(in crate::programs) mod sticks;
