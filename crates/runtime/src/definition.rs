use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;
use smallvec::SmallVec;
use spyre_artifact::{Binding, CompilerOutput, ExpectedDim, ExpectedSize, Role};
use spyre_flex::{MemoryAccess, hold_interrupts};

use crate::binary::Binary;
use crate::blocking::LocationInSegment;
use crate::loaded::Loaded;
use crate::recipe::StepRecipe;
use crate::{Error, SpyreStream, SpyreTensor};

/// Output of a compiler, with the tables that launches look up, and the images that are loaded.
#[derive(Debug)]
pub(crate) struct Definition {
    output: CompilerOutput,
    dims: Vec<PlanDim>,
    /// Per tensor, which dim each of its dimensions is.
    tensor_dims: Vec<SmallVec<[u32; 4]>>,
    recipes: Vec<StepRecipe>,
    loaded: ArcSwapOption<Loaded>,
    loading: Mutex<()>,
}

/// A dim by its name, in all tensors and steps.
#[derive(Clone, Debug)]
pub(crate) struct PlanDim {
    pub(crate) name: String,
    pub(crate) size: ExpectedSize,
}

/// Loaded images, held without a reference count: launches of many threads do not contend.
#[derive(Debug)]
pub(crate) struct LoadedGuard(Guard<Option<Arc<Loaded>>>);

impl LoadedGuard {
    /// A count of it, to keep.
    pub(crate) fn shared(self) -> Arc<Loaded> {
        let loaded = Guard::into_inner(self.0);
        loaded.expect("it was looked at when it was made")
    }
}

impl std::ops::Deref for LoadedGuard {
    type Target = Loaded;

    fn deref(&self) -> &Loaded {
        self.0.as_ref().expect("it was looked at when it was made")
    }
}

impl Definition {
    pub(crate) fn new(output: CompilerOutput) -> Result<Self, Error> {
        output.check()?;
        let mut dims: Vec<PlanDim> = Vec::new();
        let mut places: BTreeMap<&str, u32> = BTreeMap::new();
        let mut tensor_dims = Vec::new();
        for tensor in &output.tensor_input_metadata {
            let places = tensor.dims.iter().map(|ExpectedDim { name, size }| {
                *places.entry(name).or_insert_with(|| {
                    dims.push(PlanDim { name: name.clone(), size: *size });
                    dims.len() as u32 - 1
                })
            });
            tensor_dims.push(places.collect());
        }
        let recipes = StepRecipe::all(&output, &places);
        let loaded = ArcSwapOption::empty();
        let loading = Mutex::default();
        Ok(Self { output, dims, tensor_dims, recipes, loaded, loading })
    }

    pub(crate) fn output(&self) -> &CompilerOutput {
        &self.output
    }

    pub(crate) fn dims(&self) -> &[PlanDim] {
        &self.dims
    }

    pub(crate) fn tensor_dims(&self, tensor: usize) -> &[u32] {
        &self.tensor_dims[tensor]
    }

    pub(crate) fn recipes(&self) -> &[StepRecipe] {
        &self.recipes
    }

    /// Access of a launch to the memory of a tensor that it is given.
    pub(crate) fn access(&self, tensor: usize, given: &SpyreTensor) -> MemoryAccess {
        match self.output.tensor_input_metadata[tensor].role {
            Role::Input => MemoryAccess::Read,
            Role::Both => MemoryAccess::Update,
            Role::Output => {
                let binding = Binding::Tensor(tensor as u32);
                let is_stored = self.recipes.iter().any(|recipe| recipe.stores_all_of(binding));
                if is_stored && given.layout().is_filled_by(given.view()) {
                    MemoryAccess::WriteAll
                } else {
                    MemoryAccess::WritePart
                }
            }
        }
    }

    /// Number of scalars that a launch is given, for all steps together.
    pub(crate) fn scalars(&self) -> usize {
        self.recipes.iter().map(|recipe| recipe.scalars.len()).sum()
    }

    pub(crate) fn loaded(&self) -> Option<Arc<Loaded>> {
        self.loaded.load_full()
    }

    /// Has what a stream is given from now on wait until what is loaded is there. If it will not be,
    /// because a copy of it failed, it is loaded anew.
    #[inline]
    pub(crate) fn ready_on(
        &self,
        stream: &SpyreStream,
        loaded: LoadedGuard,
    ) -> Result<LoadedGuard, Error> {
        // What a reset took away is for the caller to load.
        if loaded.is_ready_on(stream)? || !loaded.is_live() {
            return Ok(loaded);
        }
        self.load_again(stream)?;
        let loaded = self.loaded_for(stream, "")?;
        loaded.is_ready_on(stream)?;
        Ok(loaded)
    }

    /// Loaded images, for a launch of `operation` on this stream.
    pub(crate) fn loaded_for(
        &self,
        stream: &SpyreStream,
        operation: &str,
    ) -> Result<LoadedGuard, Error> {
        let operation = || operation.to_owned();
        let guard = LoadedGuard(self.loaded.load());
        let loaded = guard.0.as_ref().ok_or_else(|| Error::NotLoaded { operation: operation() })?;
        if !loaded.device().is(stream.device()) {
            let loaded = loaded.device().index();
            let given = stream.device().index();
            return Err(Error::PlanDevice { operation: operation(), loaded, given });
        }
        Ok(guard)
    }

    pub(crate) fn load(&self, stream: &SpyreStream) -> Result<(), Error> {
        let loader = stream.device().loader()?;
        self.load_by(stream, |image| put(&loader, image))
    }

    /// Loads it anew, as a copy of it failed.
    #[cold]
    fn load_again(&self, stream: &SpyreStream) -> Result<(), Error> {
        let _one_at_a_time = (hold_interrupts(), self.loading.lock());
        if let Some(loaded) = self.loaded()
            && loaded.is_ready_on(stream)?
        {
            return Ok(()); // another thread was faster
        }
        let loader = stream.device().loader()?;
        // Its fault is known by now to the streams that waited for the copies.
        loader.reset()?;
        let loaded = Loaded::load(self, stream, |image| put(&loader, image))?;
        self.loaded.store(Some(Arc::new(loaded)));
        Ok(())
    }

    /// Loads it to places that are there; of what is loaded already, none is used.
    pub(crate) fn load_at(
        &self,
        stream: &SpyreStream,
        locations: &mut impl Iterator<Item = LocationInSegment>,
    ) -> Result<(), Error> {
        let loader = stream.device().loader()?;
        self.load_by(stream, |image| match locations.next() {
            Some(location) => Binary::load_at(&loader, image, location),
            None => Err(Error::LocationCount { expected: self.code_bytes().len(), given: 0 }),
        })
    }

    /// Returns true if it is on a device, and no reset took it away.
    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded().is_some_and(|loaded| loaded.is_live())
    }

    /// Bytes of each piece of code.
    pub(crate) fn code_bytes(&self) -> Vec<u64> {
        let images = self.output.images.iter().filter(|image| image.program().is_some());
        images.map(|image| image.encode().len() as u64).collect()
    }

    fn load_by(
        &self,
        stream: &SpyreStream,
        put: impl FnMut(Vec<u8>) -> Result<Binary, Error>,
    ) -> Result<(), Error> {
        let _one_at_a_time = (hold_interrupts(), self.loading.lock());
        if let Some(loaded) = self.loaded() {
            let name = self.output.steps.first().map_or("", |step| &step.name);
            if !loaded.device().is(stream.device()) || loaded.is_live() {
                return self.loaded_for(stream, name).map(drop);
            }
        }
        let loaded = Arc::new(Loaded::load(self, stream, put)?);
        tracing::debug!(
            target: "spyre.execution",
            "plan {:?} is loaded on device {}: {} binaries",
            self.output.steps.first().map_or("", |step| &step.name),
            stream.device().index(),
            self.output.images.len(),
        );
        self.loaded.store(Some(loaded));
        Ok(())
    }
}

/// Copies code to memory of its own.
fn put(loader: &SpyreStream, image: Vec<u8>) -> Result<Binary, Error> {
    let bytes = image.len() as u64;
    Binary::load(loader, image, bytes)
}
