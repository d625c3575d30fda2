//! A file of tensors, by the end of its name.

use std::fs;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use spyre::numerics::DType;
use spyre::runtime::CPUTensor;

use crate::files::npy;
use crate::files::plain_file;
use crate::files::safetensors_file;
use crate::files::safetensors_file::NamedTensors;

/// Form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One array.
    Npy,
    /// Named tensors.
    Safetensors,
}

impl Form {
    /// Form that a name's extension says.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "npy" => Some(Self::Npy),
            "safetensors" => Some(Self::Safetensors),
            _ => None,
        }
    }

    /// Like [`of`](Self::of), with an error that says which extensions there are.
    pub(crate) fn expected(path: &Path) -> Result<Self> {
        let unknown =
            || format!("{}: give a file that ends in .npy or .safetensors", path.display());
        Self::of(path).with_context(unknown)
    }

    pub(crate) fn check(self, dtype: DType) -> Result<()> {
        match self {
            Self::Npy if !npy::can_hold(dtype) => {
                bail!("{dtype} has no .npy form: write a .safetensors file")
            }
            Self::Safetensors if !safetensors_file::can_hold(dtype) => {
                bail!("{dtype} has no .safetensors form")
            }
            _ => Ok(()),
        }
    }
}

/// The array of an `.npy` file.
pub(crate) fn read_array(path: &Path) -> Result<CPUTensor> {
    let file = plain_file::open(path)?;
    let read = || npy::read(std::io::BufReader::new(file));
    read().with_context(|| path.display().to_string())
}

/// The wanted tensors of a `.safetensors` file.
pub(crate) fn read_named(path: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<NamedTensors> {
    let mut file = plain_file::open(path)?;
    let read = || {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        safetensors_file::read(&bytes, is_wanted)
    };
    read().with_context(|| path.display().to_string())
}

/// Writes tensors: one to an `.npy` file, any number to a `.safetensors` file.
pub(crate) fn write(path: &Path, tensors: &[(&str, &CPUTensor)]) -> Result<()> {
    let write = || match (Form::expected(path)?, tensors) {
        (Form::Npy, [(_, tensor)]) => {
            let elements = tensor.buffer().read()?;
            let bytes = npy::write(tensor.shape(), tensor.data_type(), &elements)?;
            Ok(fs::write(path, bytes)?)
        }
        (Form::Npy, _) => bail!("an .npy file holds one array, not {}", tensors.len()),
        (Form::Safetensors, _) => safetensors_file::write(path, tensors),
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
