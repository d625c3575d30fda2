//! A plan: its Operations, what a compiler says about it, and its images on a device.

pub(crate) mod binary;
mod compute;
pub(crate) mod definition;
mod job_plan;
pub(crate) mod load;
pub(crate) mod loadable_plan;
pub(crate) mod loaded_plan;
mod operation;
mod preprocess;
pub(crate) mod recipe;

use std::sync::Arc;

use spyre_artifact::{CompilerOutput, CorrectionMetadata, InitPacket, TensorMetadata};

pub use compute::SpyreCompute;
pub use job_plan::JobPlan;
pub use operation::Operation;
pub use preprocess::{DevicePlace, HostAddress, PreProcessCompute};

use crate::blocking::LocationInSegment;
use crate::{Error, SpyreStream};
use loadable_plan::LoadablePlan;

/// An ordered list of Operations, with what a compiler says about them. It does nothing itself.
///
/// Loading it copies each binary to device memory, through a stream; then its Operations have
/// handles, and it can be launched on any stream of that device. It can be kept and launched by
/// several threads.
#[derive(Clone, Debug, Default)]
pub struct ExecutionPlan {
    operations: Vec<Operation>,
}

impl ExecutionPlan {
    /// An empty plan.
    pub fn new() -> Self {
        Self::default()
    }

    /// The plan that a compiler wrote; refused if its parts do not belong together.
    pub fn from_compiler_output(output: CompilerOutput) -> Result<Self, Error> {
        let plan = Arc::new(LoadablePlan::new(output)?);
        let operations = SpyreCompute::all(&plan).map(Operation::corrected).collect();
        Ok(Self { operations })
    }

    /// Adds an Operation at the end.
    pub fn add_operation(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    /// Operations of a launch, in order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The tensors that a launch is given.
    pub fn tensor_input_metadata(&self) -> &[TensorMetadata] {
        self.computes().next().map_or(&[], SpyreCompute::tensor_metadata)
    }

    /// Per Operation with a compute, what its correction is given.
    pub fn correction_metadata(&self) -> Vec<&CorrectionMetadata> {
        self.computes().map(SpyreCompute::correction_metadata).collect()
    }

    /// Packets that are written when an instance is made.
    pub fn init_packets(&self) -> Vec<&InitPacket> {
        self.loadable_plans().flat_map(|plan| &plan.output().init_packets).collect()
    }

    /// Number of scalars that a launch is given.
    pub fn scalars(&self) -> usize {
        self.loadable_plans().map(|plan| plan.scalars()).max().unwrap_or(0)
    }

    /// Copies each binary to memory of its own on the stream's device, by way of the stream. What is
    /// there already is not copied again; what a reset took away is.
    pub fn load(&self, stream: &SpyreStream) -> Result<(), Error> {
        self.loadable_plans().try_for_each(|plan| plan.load(stream))
    }

    /// Returns true if all of it is on a device: it was loaded, and no reset took it away.
    pub fn is_loaded(&self) -> bool {
        self.loadable_plans().all(LoadablePlan::is_loaded)
    }

    /// Like [`load`](Self::load), with the code at these places: one for each of
    /// [`code_bytes`](Self::code_bytes).
    pub(crate) fn load_at(
        &self,
        stream: &SpyreStream,
        locations: Vec<LocationInSegment>,
    ) -> Result<(), Error> {
        let expected = self.code_bytes().len();
        let given = locations.len();
        if expected != given {
            return Err(Error::LocationCount { expected, given });
        }
        let mut locations = locations.into_iter();
        self.loadable_plans().try_for_each(|plan| plan.load_at(stream, &mut locations))
    }

    /// Bytes of each piece of code that is not on a device.
    pub(crate) fn code_bytes(&self) -> Vec<u64> {
        let missing = self.loadable_plans().filter(|plan| !plan.is_loaded());
        missing.flat_map(|plan| plan.code_bytes()).collect()
    }

    fn computes(&self) -> impl Iterator<Item = &SpyreCompute> {
        self.operations.iter().filter_map(Operation::compute)
    }

    /// Each once, if they stand together.
    fn loadable_plans(&self) -> impl Iterator<Item = &LoadablePlan> {
        let mut last = None;
        self.computes().map(|compute| &**compute.definition()).filter(move |plan| {
            let place = Some(std::ptr::from_ref(*plan));
            std::mem::replace(&mut last, place) != place
        })
    }
}
