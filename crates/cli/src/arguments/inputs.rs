//! The tensors that a command line gives, matched with those of a plan.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use spyre::artifact::{Role, TensorMetadata};
use spyre::runtime::CPUTensor;

use crate::files::safetensors_file::NamedTensors;
use crate::files::tensor_file::{self, Form};
use crate::reports::text;

/// A tensor from a file.
#[derive(Clone, Debug)]
pub(crate) struct InputTensor {
    pub(crate) host: CPUTensor,
    pub(crate) source: String,
}

/// Returns what was given for each tensor of the plan, with the right elements and dimensions.
///
/// An input is `name=FILE`, `FILE.safetensors` by the names in it, or `FILE.npy` for the next of the
/// plan's inputs that no name gives.
pub(crate) fn read(
    tensors: &[TensorMetadata],
    inputs: &[String],
) -> Result<Vec<Option<InputTensor>>> {
    let mut given: Vec<Option<InputTensor>> = vec![None; tensors.len()];
    let mut in_order = Vec::new();
    for input in inputs {
        match tensor_and_file(tensors, input)? {
            Some((at, path)) => give(&mut given, at, tensors, one(&path, &tensors[at].name)?)?,
            None if Form::expected(Path::new(input))? == Form::Npy => in_order.push(input),
            None => give_all(&mut given, tensors, Path::new(input))?,
        }
    }
    for (nth, input) in in_order.iter().enumerate() {
        let is_free = |at: &usize| given[*at].is_none() && tensors[*at].role != Role::Output;
        let Some(at) = (0..tensors.len()).find(is_free) else {
            let count = tensors.iter().filter(|tensor| tensor.role != Role::Output).count();
            let names = names(tensors);
            bail!(
                "{input}: no input is left for it, as the plan has {count} and {} came before it \
                 (its tensors are {names})",
                inputs.len() - in_order.len() + nth
            );
        };
        give(&mut given, at, tensors, one(Path::new(input), &tensors[at].name)?)?;
    }
    Ok(given)
}

/// The tensor and the file of `name=FILE`.
fn tensor_and_file(tensors: &[TensorMetadata], input: &str) -> Result<Option<(usize, PathBuf)>> {
    let Some((name, path)) = input.split_once('=') else { return Ok(None) };
    match tensors.iter().position(|tensor| tensor.name == name) {
        Some(at) => Ok(Some((at, path.into()))),
        None if Path::new(input).exists() => Ok(None),
        None => bail!("the plan has no tensor {name:?}: its tensors are {}", names(tensors)),
    }
}

pub(crate) fn names(tensors: &[TensorMetadata]) -> String {
    tensors.iter().map(|tensor| &*tensor.name).collect::<Vec<_>>().join(", ")
}

/// The tensor in a file for this name: the array, the tensor of the name, or the only one.
fn one(path: &Path, name: &str) -> Result<InputTensor> {
    let source = path.display().to_string();
    if Form::expected(path)? == Form::Npy {
        return Ok(InputTensor { host: tensor_file::read_array(path)?, source });
    }
    let NamedTensors { wanted, names } = tensor_file::read_named(path, |known| known == name)?;
    let mut found = wanted;
    if found.is_empty() && names.len() == 1 {
        found = tensor_file::read_named(path, |_| true)?.wanted;
    }
    let holds = || format!("{source} holds no tensor {name:?}, but {}", names.join(", "));
    let (_, host) = found.pop().with_context(holds)?;
    Ok(InputTensor { host, source })
}

/// All tensors in a file that the plan has.
fn give_all(
    given: &mut [Option<InputTensor>],
    tensors: &[TensorMetadata],
    path: &Path,
) -> Result<()> {
    let is_known = |name: &str| tensors.iter().any(|tensor| tensor.name == name);
    let NamedTensors { wanted: found, names: held } = tensor_file::read_named(path, is_known)?;
    ensure!(
        !found.is_empty(),
        "{} holds none of the plan's tensors ({}), but {}",
        path.display(),
        names(tensors),
        held.join(", ")
    );
    for (name, host) in found {
        let at = tensors.iter().position(|tensor| tensor.name == name).unwrap_or(0);
        give(given, at, tensors, InputTensor { host, source: path.display().to_string() })?;
    }
    Ok(())
}

fn give(
    given: &mut [Option<InputTensor>],
    at: usize,
    tensors: &[TensorMetadata],
    tensor: InputTensor,
) -> Result<()> {
    let expected = &tensors[at];
    if let Some(before) = &given[at] {
        bail!(
            "tensor {:?} is given twice, by {} and {}",
            expected.name,
            before.source,
            tensor.source
        );
    }
    ensure!(
        expected.role != Role::Output,
        "tensor {:?} is a result, so {} cannot give it: give its size with --shape, if need be",
        expected.name,
        tensor.source
    );
    check(expected, &tensor)?;
    given[at] = Some(tensor);
    Ok(())
}

fn check(expected: &TensorMetadata, given: &InputTensor) -> Result<()> {
    let TensorMetadata { name, dtype, dims, .. } = expected;
    let host = &given.host;
    let source = &given.source;
    ensure!(
        host.data_type() == *dtype,
        "tensor {name:?}: {source} holds {}, and the plan expects {dtype}: convert it",
        host.data_type()
    );
    let shape = host.shape();
    let dim_names: Vec<&str> = dims.iter().map(|dim| &*dim.name).collect();
    ensure!(
        shape.len() == dims.len(),
        "tensor {name:?}: {source} has {} ({}), and the plan expects {} ({})",
        text::count(shape.len(), "dimension"),
        text::shape(shape),
        dims.len(),
        dim_names.join(", ")
    );
    Ok(())
}
