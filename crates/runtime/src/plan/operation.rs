use spyre_hal::DeviceHandle;

use crate::{Error, PreProcessCompute, SpyreCompute, SpyreStream};

/// A unit of work for a stream: steps that come first, and a compute. One of them may be missing.
///
/// It holds all that belongs together: if a compute needs correction, the copy of its inputs and the
/// correction itself are steps of the same Operation.
#[derive(Clone, Debug, Default)]
pub struct Operation {
    compute: Option<SpyreCompute>,
    preprocessing: Vec<PreProcessCompute>,
    /// True if the steps are the compute's own correction, and nothing else.
    is_corrected: bool,
}

impl Operation {
    /// A compute that needs nothing before it.
    pub fn new(compute: SpyreCompute) -> Self {
        Self { compute: Some(compute), ..Self::default() }
    }

    /// Steps, and then a compute.
    pub fn with_preprocessing(
        compute: SpyreCompute,
        preprocessing: Vec<PreProcessCompute>,
    ) -> Self {
        Self { compute: Some(compute), preprocessing, is_corrected: false }
    }

    /// Steps alone: tensors and binaries that are copied.
    pub fn preprocessing(preprocessing: Vec<PreProcessCompute>) -> Self {
        Self { preprocessing, ..Self::default() }
    }

    /// A compute with the correction that it was compiled with.
    pub fn corrected(compute: SpyreCompute) -> Self {
        let preprocessing: Vec<_> = compute.correction().into_iter().flatten().collect();
        let is_corrected = !preprocessing.is_empty();
        Self { compute: Some(compute), preprocessing, is_corrected }
    }

    /// Its compute, if it has one.
    pub fn compute(&self) -> Option<&SpyreCompute> {
        self.compute.as_ref()
    }

    /// Steps that run before the compute.
    pub fn steps(&self) -> &[PreProcessCompute] {
        &self.preprocessing
    }

    pub(crate) fn is_corrected(&self) -> bool {
        self.is_corrected
    }

    /// Name of its compute; `copies` if it has none.
    pub fn name(&self) -> &str {
        self.compute.as_ref().map_or("copies", SpyreCompute::name)
    }

    /// Its binaries, one handle each, as the stream that loaded them launches them: the correction
    /// if there is one, the compute's entry, and the code. None before they are loaded.
    pub fn device_handles(&self) -> Vec<DeviceHandle> {
        self.compute.as_ref().map(SpyreCompute::device_handles).unwrap_or_default()
    }

    /// Like [`device_handles`](Self::device_handles), as another stream launches them. They are made there if
    /// need be.
    pub fn device_handles_on(&self, stream: &SpyreStream) -> Result<Vec<DeviceHandle>, Error> {
        match &self.compute {
            Some(compute) => compute.device_handles_on(stream),
            None => Ok(Vec::new()),
        }
    }
}
