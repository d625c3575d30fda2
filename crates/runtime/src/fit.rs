//! Tensors of a launch, against what a plan expects of them.

mod aliasing;
pub(crate) mod tiles;

use smallvec::SmallVec;
use spyre_artifact::{ExpectedSize, TensorMetadata};

use crate::plan::definition::Definition;
use crate::plan::recipe::{StepDim, StepRecipe};
use crate::{Device, Error, SpyreTensor};

/// Length of each of a plan's dims in the tensors of one launch.
#[derive(Debug)]
pub(crate) struct Fit {
    pub(crate) extents: SmallVec<[u64; 8]>,
}

/// No tensor has said how long a dim is.
const UNKNOWN: u64 = u64::MAX;

/// More would take hours to queue alone. Tensors can be that large: a view may repeat elements.
const MOST_TILES: u64 = 1 << 32;

impl Definition {
    /// Compares tensors with what the plan expects of them, in all but the sizes of tiles.
    pub(crate) fn fit(&self, device: &Device, tensors: &[SpyreTensor]) -> Result<Fit, Error> {
        let expected = &self.output().tensor_input_metadata;
        if expected.len() != tensors.len() {
            return Err(self.wrong_count(tensors.len()));
        }
        let mut extents = SmallVec::from_elem(UNKNOWN, self.dims().len());
        for (at, (tensor, expected)) in tensors.iter().zip(expected).enumerate() {
            check_tensor(device, tensor, expected)?;
            for (dim, &size) in tensor.shape().iter().enumerate() {
                let plan_dim = self.tensor_dims(at)[dim] as usize;
                let extent = &mut extents[plan_dim];
                if *extent == UNKNOWN {
                    *extent = size as u64;
                } else if *extent != size as u64 {
                    return Err(self.unequal(plan_dim, *extent, at, size as u64));
                }
            }
        }
        aliasing::check(self, tensors)?;
        Ok(Fit { extents })
    }

    #[cold]
    fn wrong_count(&self, given: usize) -> Error {
        let names: Vec<&str> =
            self.output().tensor_input_metadata.iter().map(|tensor| &*tensor.name).collect();
        Error::TensorCount { expected: names.len(), given, names: names.join(", ") }
    }

    #[cold]
    fn unequal(&self, plan_dim: usize, first: u64, second_at: usize, second: u64) -> Error {
        let tensors = &self.output().tensor_input_metadata;
        let (first_at, _) = self.whose(plan_dim);
        Error::UnequalDims {
            name: self.dims()[plan_dim].name.clone(),
            first_tensor: tensors[first_at].name.clone(),
            first,
            second_tensor: tensors[second_at].name.clone(),
            second,
        }
    }

    /// The first tensor and dimension that a dim is.
    fn whose(&self, plan_dim: usize) -> (usize, usize) {
        let places = 0..self.output().tensor_input_metadata.len();
        let place = |tensor: usize| {
            let dims = self.tensor_dims(tensor);
            Some((tensor, dims.iter().position(|&dim| dim as usize == plan_dim)?))
        };
        places.into_iter().find_map(place).unwrap_or_default()
    }

    /// The first tensor that has a dim, its dimension there, and the name of the dim.
    fn tensor_and_name(&self, plan_dim: usize) -> (String, usize, String) {
        let (tensor, dim) = self.whose(plan_dim);
        let tensor = self.output().tensor_input_metadata[tensor].name.clone();
        (tensor, dim, self.dims()[plan_dim].name.clone())
    }
}

impl Fit {
    /// Refuses tensors that are not the tile that the plan was compiled for.
    pub(crate) fn check_strict(&self, definition: &Definition) -> Result<(), Error> {
        for (plan_dim, dim) in definition.dims().iter().enumerate() {
            let given = self.extents[plan_dim];
            if let ExpectedSize::Fixed(expected) = dim.size
                && expected.get() != given
            {
                let (tensor, dim, name) = definition.tensor_and_name(plan_dim);
                let expected = expected.get();
                return Err(Error::Shape { tensor, dim, name, given, expected });
            }
        }
        Ok(())
    }

    /// Refuses tensors that the step's program cannot cover tile by tile.
    pub(crate) fn check_tiles(
        &self,
        definition: &Definition,
        recipe: &StepRecipe,
    ) -> Result<(), Error> {
        let mut tiles = 1_u64;
        for dim in &recipe.dims {
            let given = self.extents[dim.plan_dim];
            if let ExpectedSize::Fixed(tile) = definition.dims()[dim.plan_dim].size
                && tile.get() != given
            {
                check_dim(definition, recipe, dim, given, tile.get())?;
                tiles = tiles.saturating_mul(given.div_ceil(tile.get()).max(1));
            }
        }
        if tiles > MOST_TILES {
            let operation = recipe.label.to_string();
            return Err(Error::TileCount { operation, tiles, most: MOST_TILES });
        }
        Ok(())
    }
}

fn check_dim(
    definition: &Definition,
    recipe: &StepRecipe,
    dim: &StepDim,
    given: u64,
    tile: u64,
) -> Result<(), Error> {
    let is_whole = given >= tile && given.is_multiple_of(tile);
    let is_covered = dim.has_extent || is_whole;
    let is_summed = !dim.is_reduction || dim.has_flags || given <= tile;
    if is_covered && is_summed {
        Ok(())
    } else {
        Err(uncovered(definition, recipe, dim, given, tile))
    }
}

#[cold]
fn uncovered(
    definition: &Definition,
    recipe: &StepRecipe,
    step_dim: &StepDim,
    given: u64,
    tile: u64,
) -> Error {
    let (tensor, dim, name) = definition.tensor_and_name(step_dim.plan_dim);
    if step_dim.has_extent || given.is_multiple_of(tile) && given >= tile {
        let operation = recipe.label.to_string();
        return Error::ReductionTiles { operation, name, given, tile };
    }
    if given < tile {
        Error::SmallerThanTile { tensor, dim, name, given, tile }
    } else {
        Error::NotDivisible { tensor, dim, name, given, tile }
    }
}

#[inline]
fn check_tensor(
    device: &Device,
    tensor: &SpyreTensor,
    expected: &TensorMetadata,
) -> Result<(), Error> {
    let is_fit = tensor.device().is(device)
        && tensor.data_type() == expected.dtype
        && tensor.layout().device_dtype() == expected.format
        && tensor.shape().len() == expected.dims.len();
    if is_fit { Ok(()) } else { Err(unfit(device, tensor, expected)) }
}

#[cold]
fn unfit(device: &Device, given: &SpyreTensor, expected: &TensorMetadata) -> Error {
    let tensor = expected.name.clone();
    if !given.device().is(device) {
        let expected = device.index();
        let given = given.device().index();
        return Error::TensorDevice { tensor, expected, given };
    }
    if given.data_type() != expected.dtype {
        let expected = expected.dtype;
        let given = given.data_type();
        return Error::DataType { tensor, expected, given };
    }
    if given.layout().device_dtype() != expected.format {
        let expected = expected.format;
        let given = given.layout().device_dtype();
        return Error::Format { tensor, expected, given };
    }
    let names: Vec<&str> = expected.dims.iter().map(|dim| &*dim.name).collect();
    let expected = names.len();
    let dims = names.join(", ");
    Error::Rank { tensor, expected, given: given.shape().len(), dims }
}
