//! Ops of images: tensors of channels, each of which is a line, a picture or a volume of places.

mod avg_pool;
mod batch_norm;
mod channels;
mod convolution;
mod depthwise;
mod folding;
mod group_norm;
mod max_pool;
mod padding;
mod planes;
mod pooling;
mod resampling;
mod steps;
pub(crate) mod sums;
mod taps;
mod windows;

use crate::recipe::Function;

/// Every op of this kind, by what it is for.
pub(crate) const OPS: &[&[(&str, Function)]] = &[
    convolution::OPS,
    max_pool::OPS,
    avg_pool::OPS,
    resampling::OPS,
    padding::OPS,
    folding::OPS,
    batch_norm::OPS,
    group_norm::OPS,
];
