//! Sizes of the tensors of a launch.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Result, bail, ensure};
use spyre::artifact::{ExpectedDim, ExpectedSize, Role, TensorMetadata};

use crate::arguments::inputs::{InputTensor, names};
use crate::reports::text;

/// `--shape`: a tensor's sizes (`c=256x64`), or those of a dim (`m=256`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShapeArgument {
    name: String,
    sizes: Vec<usize>,
}

impl FromStr for ShapeArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refusal =
            || format!("{text:?} is no shape: give tensor=RxC or dim=N, such as c=256x64");
        let (name, sizes) = text.split_once('=').ok_or_else(refusal)?;
        let sizes: Result<Vec<usize>, _> = match sizes {
            "scalar" => Ok(Vec::new()),
            _ => sizes.split('x').map(str::parse).collect(),
        };
        Ok(Self { name: name.to_owned(), sizes: sizes.map_err(|_| refusal())? })
    }
}

/// The size of every dim that something says, and what said it.
type Known = BTreeMap<String, (usize, String)>;

/// The shape of each tensor: from those that are given, from `--shape`, and else from the plan.
pub(crate) fn infer(
    tensors: &[TensorMetadata],
    given: &[Option<InputTensor>],
    shapes: &[ShapeArgument],
) -> Result<Vec<Vec<usize>>> {
    let mut known = Known::new();
    for (tensor, given) in tensors.iter().zip(given) {
        let Some(given) = given else { continue };
        let shape = given.host.shape();
        let source = format!("tensor {:?} ({}, {})", tensor.name, given.source, text::shape(shape));
        note_all(&mut known, &tensor.dims, shape, &source)?;
    }
    for shape in shapes {
        note_argument(&mut known, tensors, shape)?;
    }
    tensors.iter().map(|tensor| shape_of(tensor, &known)).collect()
}

fn note_argument(
    known: &mut Known,
    tensors: &[TensorMetadata],
    argument: &ShapeArgument,
) -> Result<()> {
    let ShapeArgument { name, sizes } = argument;
    let source = format!("--shape {name}={}", text::shape(sizes));
    if let Some(tensor) = tensors.iter().find(|tensor| tensor.name == *name) {
        let expected = tensor.dims.len();
        let given = sizes.len();
        ensure!(
            expected == given,
            "{source} has {}, and tensor {name:?} has {expected} ({})",
            text::count(given, "dimension"),
            dim_names(&tensor.dims)
        );
        return note_all(known, &tensor.dims, sizes, &source);
    }
    let mut dims = tensors.iter().flat_map(|tensor| &tensor.dims);
    if dims.any(|dim| dim.name == *name) {
        ensure!(sizes.len() == 1, "{source}: {name} is a dim, which has one size");
        return note(known, name, sizes[0], &source);
    }
    bail!(
        "{source}: the plan has neither a tensor nor a dim {name:?}: its tensors are {}, its dims {}",
        names(tensors),
        all_dims(tensors).join(", ")
    )
}

fn note_all(known: &mut Known, dims: &[ExpectedDim], sizes: &[usize], source: &str) -> Result<()> {
    dims.iter().zip(sizes).try_for_each(|(dim, &size)| note(known, &dim.name, size, source))
}

fn note(known: &mut Known, dim: &str, size: usize, source: &str) -> Result<()> {
    match known.get(dim) {
        Some((first, first_source)) if *first != size => {
            bail!("dim {dim} is {first} in {first_source}, but {size} in {source}")
        }
        Some(_) => Ok(()),
        None => {
            known.insert(dim.to_owned(), (size, source.to_owned()));
            Ok(())
        }
    }
}

fn shape_of(tensor: &TensorMetadata, known: &Known) -> Result<Vec<usize>> {
    let TensorMetadata { name, dims, .. } = tensor;
    let size = |dim: &ExpectedDim| match (known.get(&dim.name), dim.size) {
        (Some((size, _)), _) => Ok(*size),
        (None, ExpectedSize::Fixed(tile)) => Ok(usize::try_from(tile.get())?),
        (None, ExpectedSize::Any) => {
            let dim = &dim.name;
            let places = vec!["N"; dims.len()].join("x");
            let file = match tensor.role {
                Role::Output => String::new(),
                Role::Input | Role::Both => format!(", or the tensor itself with {name}=FILE"),
            };
            bail!(
                "nothing says how long dim {dim} of tensor {name:?} ({}) is: give --shape {dim}=N, \
                 --shape {name}={places}{file}",
                dim_names(dims)
            )
        }
    };
    dims.iter().map(size).collect()
}

fn dim_names(dims: &[ExpectedDim]) -> String {
    dims.iter().map(|dim| &*dim.name).collect::<Vec<_>>().join(", ")
}

fn all_dims(tensors: &[TensorMetadata]) -> Vec<&str> {
    let mut dims = Vec::new();
    for dim in tensors.iter().flat_map(|tensor| &tensor.dims) {
        if !dims.contains(&&*dim.name) {
            dims.push(&*dim.name);
        }
    }
    dims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_a_name_and_sizes() {
        let of = |text: &str| text.parse::<ShapeArgument>();
        let shape = |name: &str, sizes: &[usize]| {
            Ok(ShapeArgument { name: name.to_owned(), sizes: sizes.to_vec() })
        };
        assert_eq!(of("c=256x64"), shape("c", &[256, 64]));
        assert_eq!((of("m=0"), of("x=scalar")), (shape("m", &[0]), shape("x", &[])));
        for bad in ["c", "c=", "c=1x", "c=-1", "c=1X2", "c=99999999999999999999"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
