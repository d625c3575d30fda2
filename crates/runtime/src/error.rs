use spyre_numerics::{DType, DataFormat};

use crate::DeviceIndex;

/// Errors of the runtime. An `Err` means that nothing was queued.
///
/// [`Error::Flex`] may also report a fault of work that was queued before.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    /// Too many tensors, or too few.
    #[error("the plan takes {expected} tensors ({names}), and {given} were given")]
    TensorCount { expected: usize, given: usize, names: String },

    /// Too many scalars, or too few.
    #[error("the plan takes {expected} scalars, and {given} were given: give one word for each")]
    ScalarCount { expected: usize, given: usize },

    /// Elements of another type.
    #[error("tensor {tensor:?} holds {given}, and the plan was made for {expected}")]
    DataType { tensor: String, expected: DType, given: DType },

    /// Elements that lie otherwise in device memory.
    #[error(
        "tensor {tensor:?} is stored as {}, and the plan was made for {}: compile it for the \
         device's profile", .given.name(), .expected.name()
    )]
    Format { tensor: String, expected: DataFormat, given: DataFormat },

    /// A tensor of another card.
    #[error("tensor {tensor:?} is on device {given}, and the stream on device {expected}: copy it")]
    TensorDevice { tensor: String, expected: DeviceIndex, given: DeviceIndex },

    /// More dimensions, or fewer.
    #[error("tensor {tensor:?} has {given} dimensions, and the plan expects {expected} ({dims})")]
    Rank { tensor: String, expected: usize, given: usize, dims: String },

    /// A strict launch with a tensor that is not the tile.
    #[error(
        "tensor {tensor:?}: dimension {dim} ({name}) is {given}, not the {expected} that the \
         program was compiled for: launch_tiled takes larger ones"
    )]
    Shape { tensor: String, dim: usize, name: String, given: u64, expected: u64 },

    /// A tensor that no number of tiles covers.
    #[error(
        "tensor {tensor:?}: dimension {dim} ({name}) is {given}, not a multiple of the tile's \
         {tile}, and the program takes no part of a tile: pad it, or compile it with extents that \
         are patched"
    )]
    NotDivisible { tensor: String, dim: usize, name: String, given: u64, tile: u64 },

    /// A tensor that does not fill one tile.
    #[error(
        "tensor {tensor:?}: dimension {dim} ({name}) is {given}, smaller than the tile's {tile}, \
         and the program takes no part of a tile: pad it, or compile it for {given}"
    )]
    SmallerThanTile { tensor: String, dim: usize, name: String, given: u64, tile: u64 },

    /// One dim, two lengths.
    #[error(
        "dim {name} is {first} in tensor {first_tensor:?}, but {second} in tensor \
         {second_tensor:?}"
    )]
    UnequalDims {
        name: String,
        first_tensor: String,
        first: u64,
        second_tensor: String,
        second: u64,
    },

    /// A reduction that would be cut in pieces, by a program that keeps no partial result.
    #[error(
        "operation {operation:?} reduces over dim {name}, which is {given} and would be cut in \
         tiles of {tile}, but its program keeps no partial result: compile it with first and last \
         flags, or for {given}"
    )]
    ReductionTiles { operation: String, name: String, given: u64, tile: u64 },

    /// More tiles than could ever be queued.
    #[error(
        "operation {operation:?} would be cut in {tiles} tiles, and at most {most} are launched: \
         compile it for larger ones"
    )]
    TileCount { operation: String, tiles: u64, most: u64 },

    /// A tensor that does not lie as a program of the strict form wants it.
    #[error(
        "tensor {tensor:?}: dimension {dim} has a stride of {given} bytes, not the {expected} that \
         the program was compiled for: make it contiguous"
    )]
    Stride { tensor: String, dim: usize, given: u64, expected: u64 },

    /// A result that would be written over an argument, or over another result.
    #[error(
        "tensor {written:?} is written and shares memory with tensor {other:?}: give it memory of \
         its own"
    )]
    Aliased { written: String, other: String },

    /// A result some of whose elements are the same memory.
    #[error(
        "tensor {tensor:?} is written, but its stride of {stride_bytes} bytes along dimension \
         {dim} makes elements share memory"
    )]
    SharedElements { tensor: String, dim: usize, stride_bytes: u64 },

    /// A tensor whose memory is gone.
    #[error("tensor {tensor:?}: {cause}")]
    Tensor { tensor: String, cause: spyre_flex::Error },

    /// An Operation whose binaries are not on the device.
    #[error("operation {operation:?} is not loaded: call load on its plan, with a stream")]
    NotLoaded { operation: String },

    /// A plan that was loaded to another card.
    #[error(
        "operation {operation:?} is loaded to device {loaded}, and the stream is on device {given}: \
         make another plan from the same compiler output"
    )]
    PlanDevice { operation: String, loaded: DeviceIndex, given: DeviceIndex },

    /// A plan whose binaries went with a reset of the card.
    #[error("operation {operation:?} was loaded before the device was reset: load its plan again")]
    PlanGone { operation: String },

    /// A step that a job does not have.
    #[error("Step index out of range: {index} of {steps}")]
    StepIndex { index: usize, steps: usize },

    /// A job whose programs are another card's.
    #[error(
        "{folder} was compiled for another card: its binaries are no programs of this one. Compile \
         it here, or launch a folder that CompilerOutput::save wrote"
    )]
    ForeignJob { folder: String },

    /// An Operation with no compute and no preprocessing.
    #[error("the operation has neither a compute nor preprocessing: there is nothing to launch")]
    EmptyOperation,

    /// A correction step without the compute that it corrects.
    #[error("a correction step needs the compute that it corrects in the same operation")]
    NoCompute,

    /// A composition whose programs could not be copied to the device.
    #[error("the programs of the composition are not on the device: compose it anew")]
    CompositionGone,

    /// Work that a graph cannot repeat.
    #[error(
        "{what} is refused while stream {stream} captures a graph: do it before or after the capture"
    )]
    InCapture { what: &'static str, stream: u16 },

    /// A capture with memory of another card.
    #[error("the capture is on device {device}, and its memory is not: make memory there")]
    GraphMemoryDevice { device: DeviceIndex },

    /// A replay on another card than that of the capture.
    #[error(
        "the graph was captured on another device than {given}: replay it on a stream of that one"
    )]
    GraphDevice { given: DeviceIndex },

    /// A capture within a capture.
    #[error("stream {stream} captures a graph already: end that capture first")]
    Captures { stream: u16 },

    /// The end of a capture that was not begun.
    #[error("stream {stream} captures no graph: begin a capture first")]
    CapturesNothing { stream: u16 },

    /// A correction step of a compute that has none.
    #[error("operation {operation:?} has no correction program: leave its correction steps out")]
    NoCorrection { operation: String },

    /// Correction inputs of another length than the correction program reads.
    #[error(
        "operation {operation:?} copies {given} bytes of correction inputs, and its correction \
         program reads {expected}"
    )]
    CorrectionBytes { operation: String, given: u64, expected: u64 },

    /// A launch by handles alone, of a program that takes more than one size.
    #[error(
        "operation {operation:?}: dim {name} has no fixed size, so a handle does not say what its \
         tensor measures: launch it with tensors"
    )]
    NotFixed { operation: String, name: String },

    /// Host elements that do not fill a shape.
    #[error("{given} elements do not fill the shape {shape:?}, which holds {expected}")]
    ElementCount { given: usize, expected: usize, shape: Vec<usize> },

    /// A copy between tensors of different shapes.
    #[error("a tensor of shape {from:?} cannot be copied to one of shape {to:?}")]
    CopyShapes { from: Vec<usize>, to: Vec<usize> },

    /// Host elements of another type than was asked for.
    #[error("the host tensor holds {given}, not {expected}")]
    HostDataType { expected: DType, given: DType },

    /// A view that reaches past its storage.
    #[error(
        "a view of shape {shape:?}, stride {stride:?} and offset {offset} reaches element {last}, \
         and the storage holds {elements}"
    )]
    ViewReach { shape: Vec<usize>, stride: Vec<usize>, offset: usize, last: usize, elements: usize },

    /// A dimension that a tensor does not have.
    #[error("dimension {dim} of a tensor with {rank}")]
    NoSuchDim { dim: usize, rank: usize },

    /// A part of a dimension that is not there.
    #[error("{length} elements from {start} end past dimension {dim}, which holds {elements}")]
    Narrow { dim: usize, start: usize, length: usize, elements: usize },

    /// A stream outside the pool.
    #[error("stream {id} of a pool of 65: 0 is the default, 1 to 32 are low and 33 to 64 high")]
    NoSuchStream { id: u16 },

    /// An instruction that the program does not hold.
    #[error("the program of {instructions} instructions does not hold this one")]
    NoSuchInstruction { instructions: usize },

    /// Binaries and the places for them.
    #[error("the program has {expected} binaries, and {given} locations were given")]
    LocationCount { expected: usize, given: usize },

    /// A place that is too small.
    #[error("{needed} bytes do not fit the location, which holds {given}")]
    LocationBytes { needed: u64, given: u64 },

    /// A place on another card.
    #[error("the location is on device {given}, and the engine on device {expected}")]
    LocationDevice { expected: DeviceIndex, given: DeviceIndex },

    /// A layout that is refused.
    #[error(transparent)]
    Layout(#[from] spyre_layout::Error),

    /// A plan or an image that is refused.
    #[error(transparent)]
    Artifact(#[from] spyre_artifact::Error),

    /// A refusal or a fault that the layer below reports.
    #[error(transparent)]
    Flex(#[from] spyre_flex::Error),
}

impl From<spyre_hal::HostBusy> for Error {
    fn from(busy: spyre_hal::HostBusy) -> Self {
        Self::Flex(busy.into())
    }
}

impl From<spyre_numerics::Error> for Error {
    fn from(error: spyre_numerics::Error) -> Self {
        Self::Layout(error.into())
    }
}
