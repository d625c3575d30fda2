use spyre_numerics::DataFormat;

/// Errors of layouts, views and copies. An `Err` means that nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    /// An element format or a conversion was refused.
    #[error(transparent)]
    Numerics(#[from] spyre_numerics::Error),

    /// Sizes and strides do not belong together.
    #[error(
        "{sizes} sizes and {strides} strides do not describe one tensor; give one of each per dimension"
    )]
    RankMismatch { sizes: usize, strides: usize },

    /// A tensor that no address reaches.
    #[error(
        "size {size:?} with stride {stride:?} needs more than 2^63 bytes; use smaller sizes or strides"
    )]
    TooLarge { size: Vec<usize>, stride: Vec<usize> },

    /// The dimension order is no permutation of the dimensions.
    #[error(
        "Incompatible host_size and dim_order: {dim_order:?} must hold each of the {rank} \
         dimensions once, with at most one -1 behind them"
    )]
    DimOrder { rank: usize, dim_order: Vec<i64> },

    /// A stick dimension that is not there, or twice.
    #[error(
        "stick dimension {dim} of {stick_dims:?} is out of range for rank {rank}, or given twice"
    )]
    StickDim { dim: usize, rank: usize, stick_dims: Vec<usize> },

    /// More dimensions than a layout can hold.
    #[error(
        "Unsupported tensor rank {rank}: at most {max} dimensions; \
         merge or materialise the outer ones"
    )]
    Rank { rank: usize, max: usize },

    /// `device_size` and `stride_map` differ in length, or are empty.
    #[error(
        "Invalid device sizes and stride map: {sizes} sizes and {strides} strides; give 1 to 8 of each"
    )]
    DeviceRank { sizes: usize, strides: usize },

    /// The innermost device dimension must be one stick.
    #[error(
        "Invalid device sizes and stride map: the last device dimension is {given}, \
         but a stick of {format} holds {expected} elements"
    )]
    StickSize { given: usize, expected: usize, format: DataFormat },

    /// A stride map entry without meaning.
    #[error(
        "Invalid device sizes and stride map: stride_map[{dim}] is {stride}; \
         a host stride is positive and below 2^59, 0 replicates, -1 is synthetic"
    )]
    StrideMap { dim: usize, stride: i64 },

    /// A host element that no device position holds, because the device is too small there.
    #[error(
        "Invalid device sizes and stride map: up to device dimension {dim} there is room for \
         {size} steps of {radix} host elements, but the tensor needs {needed}"
    )]
    NotCovered { dim: usize, size: usize, radix: usize, needed: usize },

    /// A host element that falls between the elements a device dimension can address.
    #[error(
        "Invalid tiling for dimension: {rest} host elements remain after every device dimension \
         of stride map {stride_map:?}; one device dimension must have the host's smallest stride"
    )]
    Tiling { rest: usize, stride_map: Vec<i64> },

    /// The arrangement has no rule for copies.
    #[error(
        "element arrangement {name} has no published order; copies know STANDARD and DL16_TO_FP32"
    )]
    Arrangement { name: &'static str },

    /// `DL16_TO_FP32` needs pairs of sticks of 32 elements.
    #[error(
        "element arrangement DL16_TO_FP32 needs pairs of 32-element sticks, not {sticks} sticks of {elements}"
    )]
    ArrangementSticks { sticks: usize, elements: usize },

    /// The layout has no host shape, so that its dimensions have no names.
    #[error("this explicit layout has no host size and stride; give them with for_host()")]
    NoHostShape,

    /// The view reaches past its storage.
    #[error("the view's last element is {last}, but its storage holds {elements}")]
    ViewOutside { last: usize, elements: usize },

    /// The two ends of a copy differ.
    #[error("a view of size {source_size:?} cannot be copied to one of size {target_size:?}")]
    SizeMismatch { source_size: Vec<usize>, target_size: Vec<usize> },

    /// Two elements would be written to one place.
    #[error(
        "dimension {dim} of the target has stride 0: its elements share one place; materialise it first"
    )]
    TargetRepeats { dim: usize },

    /// More elements would be written than there are places.
    #[error("the target's {elements} elements share {places} places; materialise it first")]
    TargetOverlaps { elements: usize, places: usize },

    /// A buffer is shorter than the nest's reach.
    #[error("the {end} buffer holds {given} bytes, but the nest reaches {needed}")]
    BufferTooShort { end: &'static str, given: usize, needed: usize },
}
