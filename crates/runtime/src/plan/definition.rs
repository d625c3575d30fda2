use std::collections::BTreeMap;

use smallvec::SmallVec;
use spyre_artifact::{Binding, CompilerOutput, ExpectedDim, ExpectedSize, Role};
use spyre_flex::MemoryAccess;

use crate::plan::recipe::StepRecipe;
use crate::{Error, SpyreTensor};

/// Output of a compiler, with the tables that launches look up.
#[derive(Debug)]
pub(crate) struct Definition {
    output: CompilerOutput,
    dims: Vec<PlanDim>,
    /// Per tensor, which dim each of its dimensions is.
    tensor_dims: Vec<SmallVec<[u32; 4]>>,
    recipes: Vec<StepRecipe>,
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
        Ok(Self { output, dims, tensor_dims, recipes })
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

    /// Bytes of each piece of code.
    pub(crate) fn code_bytes(&self) -> Vec<u64> {
        let images = self.output.images.iter().filter(|image| image.program().is_some());
        images.map(|image| image.encode().len() as u64).collect()
    }
}
