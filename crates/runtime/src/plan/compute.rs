use std::sync::Arc;

use spyre_artifact::{
    CodeImage, CorrectionMetadata, EntryImage, ExpectedSize, HandleWords, TensorMetadata,
};
use spyre_hal::{DeviceHandle, DeviceRange, HostBuffer};

use crate::instance::StepInstance;
use crate::plan::loadable_plan::LoadablePlan;
use crate::plan::loaded_plan::LoadedPlan;
use crate::plan::recipe::StepRecipe;
use crate::{Error, HostAddress, PreProcessCompute, SpyreStream};

/// A compiled program that an Operation computes with: one step of what a compiler wrote.
#[derive(Clone, Debug)]
pub struct SpyreCompute {
    plan: Arc<LoadablePlan>,
    step: usize,
}

impl SpyreCompute {
    pub(crate) fn all(plan: &Arc<LoadablePlan>) -> impl Iterator<Item = Self> {
        (0..plan.recipes().len()).map(|step| Self { plan: Arc::clone(plan), step })
    }

    /// Name of the step.
    pub fn name(&self) -> &str {
        &self.plan.output().steps[self.step].name
    }

    /// Sizes that its tensors are expected to have: the tile, or any size.
    pub fn expected_input_shapes(&self) -> Vec<Vec<ExpectedSize>> {
        let dims = |tensor: &TensorMetadata| tensor.dims.iter().map(|dim| dim.size).collect();
        self.tensor_metadata().iter().map(dims).collect()
    }

    /// The tensors that a launch is given.
    pub fn tensor_metadata(&self) -> &[TensorMetadata] {
        &self.plan.output().tensor_input_metadata
    }

    /// Description of the input that its correction gets at each launch.
    pub fn correction_metadata(&self) -> &CorrectionMetadata {
        &self.plan.output().correction_metadata[self.step]
    }

    /// Its code.
    pub fn image(&self) -> &CodeImage {
        let output = self.plan.output();
        &output.images[output.steps[self.step].compute.0 as usize]
    }

    /// The binary that the stream that loaded it launches; `None` before it is loaded.
    pub fn device_handle(&self) -> Option<DeviceHandle> {
        let loaded = self.plan.loaded()?;
        Some(loaded.first().steps()[self.step].entry().handle())
    }

    /// The steps of its correction, if it was compiled with one.
    pub fn correction(&self) -> Option<[PreProcessCompute; 2]> {
        self.plan.output().steps[self.step].correction?;
        Some(PreProcessCompute::correction(self.correction_metadata().input_bytes))
    }

    /// Reads its entry image back from device memory, with the words that correction wrote last.
    pub fn read_entry(&self, stream: &SpyreStream) -> Result<EntryImage, Error> {
        let loaded = self.plan.loaded_for(stream, self.name())?;
        let loaded = self.plan.ready_on(stream, loaded)?;
        let entry = loaded.instance(stream)?.steps()[self.step].entry().handle();
        let blank = EntryImage::new(HandleWords::NONE, self.recipe().table, 0)?;
        let bytes = blank.header().image_bytes();
        let host = HostBuffer::zeroed(bytes);
        let range = DeviceRange::start_of(entry, bytes as u64);
        let copy = PreProcessCompute::copy_from_device(HostAddress::Buffer(host.clone()), range);
        stream.launch_step(copy)?;
        stream.synchronize()?;
        let bytes = host.read()?;
        Ok(EntryImage::decode(&bytes)?)
    }

    pub(crate) fn definition(&self) -> &Arc<LoadablePlan> {
        &self.plan
    }

    pub(crate) fn step(&self) -> usize {
        self.step
    }

    pub(crate) fn recipe(&self) -> &StepRecipe {
        &self.plan.recipes()[self.step]
    }

    pub(crate) fn device_handles(&self) -> Vec<DeviceHandle> {
        let Some(loaded) = self.plan.loaded() else { return Vec::new() };
        self.list(&loaded, &loaded.first().steps()[self.step])
    }

    pub(crate) fn device_handles_on(
        &self,
        stream: &SpyreStream,
    ) -> Result<Vec<DeviceHandle>, Error> {
        let loaded = self.plan.loaded_for(stream, self.name())?;
        Ok(self.list(&loaded, &loaded.instance(stream)?.steps()[self.step]))
    }

    fn list(&self, loaded: &LoadedPlan, step: &StepInstance) -> Vec<DeviceHandle> {
        let correction = step.correction().map(|correction| correction.binary.handle());
        let code = loaded.code(self.plan.output().steps[self.step].compute);
        correction.into_iter().chain([step.entry().handle()]).chain(code).collect()
    }
}
