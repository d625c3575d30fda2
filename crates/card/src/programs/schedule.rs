//! A launch from its first tile to its last: loops, threads, buffers, reuse.

pub(in crate::programs) mod launch_buffers;
pub(in crate::programs) mod machine;
pub(in crate::programs) mod pattern;
pub(in crate::programs) mod reuse;
pub(in crate::programs) mod stop;
pub(in crate::programs) mod team;
pub(in crate::programs) mod tile_cache;
pub(in crate::programs) mod tile_steps;
pub(in crate::programs) mod tiles;
pub(in crate::programs) mod traffic;
