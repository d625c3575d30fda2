use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;
use spyre_artifact::{CompilerOutput, ExpectedSize};

use crate::loaded::Loaded;
use crate::recipe::StepRecipe;
use crate::{Error, SpyreStream};

/// What a compiler wrote, with what launches look up worked out, and where it is loaded.
#[derive(Debug)]
pub(crate) struct Definition {
    output: CompilerOutput,
    dims: Vec<PlanDim>,
    /// Per tensor, which dim each of its dimensions is.
    tensor_dims: Vec<SmallVec<[u8; 8]>>,
    recipes: Vec<StepRecipe>,
    loaded: RwLock<Option<Arc<Loaded>>>,
    loading: Mutex<()>,
}

/// A dim by its name, in all tensors and steps.
#[derive(Clone, Debug)]
pub(crate) struct PlanDim {
    pub(crate) name: String,
    pub(crate) size: ExpectedSize,
}

impl Definition {
    pub(crate) fn new(output: CompilerOutput) -> Result<Self, Error> {
        output.check()?;
        let mut dims: Vec<PlanDim> = Vec::new();
        let mut tensor_dims = Vec::new();
        for tensor in &output.tensor_input_metadata {
            let places = tensor.dims.iter().map(|dim| {
                let known = dims.iter().position(|known| known.name == dim.name);
                known.unwrap_or_else(|| {
                    dims.push(PlanDim { name: dim.name.clone(), size: dim.size });
                    dims.len() - 1
                }) as u8
            });
            tensor_dims.push(places.collect());
        }
        let recipes = StepRecipe::all(&output, &dims);
        let (loaded, loading) = (RwLock::default(), Mutex::default());
        Ok(Self { output, dims, tensor_dims, recipes, loaded, loading })
    }

    pub(crate) fn output(&self) -> &CompilerOutput {
        &self.output
    }

    pub(crate) fn dims(&self) -> &[PlanDim] {
        &self.dims
    }

    pub(crate) fn tensor_dims(&self, tensor: usize) -> &[u8] {
        &self.tensor_dims[tensor]
    }

    pub(crate) fn recipes(&self) -> &[StepRecipe] {
        &self.recipes
    }

    /// How many scalars a launch is given, for all steps together.
    pub(crate) fn scalars(&self) -> usize {
        self.recipes.iter().map(|recipe| recipe.scalars.len()).sum()
    }

    pub(crate) fn loaded(&self) -> Option<Arc<Loaded>> {
        self.loaded.read().clone()
    }

    /// What is loaded, for a launch of `operation` on this stream.
    pub(crate) fn loaded_for(
        &self,
        stream: &SpyreStream,
        operation: &str,
    ) -> Result<Arc<Loaded>, Error> {
        let operation = || operation.to_owned();
        let loaded = self.loaded().ok_or_else(|| Error::NotLoaded { operation: operation() })?;
        if !loaded.device().is(stream.device()) {
            let (loaded, given) = (loaded.device().index(), stream.device().index());
            return Err(Error::PlanDevice { operation: operation(), loaded, given });
        }
        Ok(loaded)
    }

    pub(crate) fn load(&self, stream: &SpyreStream) -> Result<(), Error> {
        let _one_at_a_time = self.loading.lock();
        if let Some(loaded) = self.loaded() {
            let name = self.output.steps.first().map_or("", |step| &step.name);
            if !loaded.device().is(stream.device()) || loaded.is_live() {
                return self.loaded_for(stream, name).map(drop);
            }
        }
        let loaded = Arc::new(Loaded::load(self, stream)?);
        *self.loaded.write() = Some(loaded);
        Ok(())
    }
}
