use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;
use spyre::artifact::CompilerOutput;
use spyre::artifact::samples::{self, Elements};
use spyre::numerics::{DType, Profile};

use crate::launch::ProfileName;
use crate::reports::text;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Plan to write.
    sample: Sample,
    /// The folder to write; it must not be there yet.
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// The tile to compile for, as rows,columns or for matmul m,k,n; without it, any size.
    #[arg(long, value_delimiter = ',', value_name = "N,N")]
    tile: Vec<u64>,
    /// Dtype of the elements.
    #[arg(long, default_value = "float32", value_parser = dtype)]
    dtype: DType,
    /// Numeric profile of the device.
    #[arg(long, default_value = "open")]
    profile: ProfileName,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sample {
    /// c = a + b.
    Addition,
    /// c = a x b; tiles may cut k, too.
    Matmul,
    /// d = (a + b) + c, in two steps.
    TwoAdditions,
    /// y = the sum of each row of x.
    RowSums,
    /// c = a + b, of whole tiles only.
    FixedAddition,
}

fn dtype(name: &str) -> Result<DType, String> {
    let known = || DType::ALL.map(DType::name).join(", ");
    DType::from_name(name).ok_or_else(|| format!("give one of {}", known()))
}

pub(crate) fn write(arguments: &Arguments) -> Result<Report> {
    let mut plan = sample(arguments)?;
    plan.options.profile = arguments.profile.into();
    Report::save(&plan, &arguments.output)
}

fn sample(arguments: &Arguments) -> Result<CompilerOutput> {
    let dtype = arguments.dtype;
    let profile = Profile::from(arguments.profile);
    let elements = Elements { dtype, format: profile.supported_format(dtype)? };
    let output = match arguments.sample {
        Sample::Addition => samples::addition(elements, arguments.tile()?),
        Sample::Matmul => samples::matmul(elements, arguments.tile()?),
        Sample::TwoAdditions => samples::two_additions(elements, arguments.tile()?),
        Sample::RowSums => samples::row_sums(elements, arguments.tile()?),
        Sample::FixedAddition => match arguments.tile()? {
            Some(tile) => samples::fixed_addition(elements, tile),
            None => bail!("fixed-addition takes whole tiles only: give --tile rows,columns"),
        },
    };
    Ok(output?)
}

impl Arguments {
    /// Tile of the arguments: as many numbers as the sample has dims, or none.
    fn tile<const N: usize>(&self) -> Result<Option<[u64; N]>> {
        if self.tile.is_empty() {
            return Ok(None);
        }
        match <[u64; N]>::try_from(&self.tile[..]) {
            Ok(tile) if !tile.contains(&0) => Ok(Some(tile)),
            Ok(_) => bail!("--tile holds a 0: give each dim at least 1 element"),
            Err(_) => bail!("--tile has {} numbers, and this sample takes {N}", self.tile.len()),
        }
    }
}

/// Report of a plan that was written.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// `None`: nothing was written.
    plan: Option<String>,
    #[serde(skip)]
    title: String,
    tensors: Vec<String>,
    steps: usize,
    images: usize,
}

impl Report {
    /// Writes a plan to a folder that is not there yet.
    pub(crate) fn save(plan: &CompilerOutput, folder: &Path) -> Result<Self> {
        plan.save(folder)?;
        let name = folder.display().to_string();
        Ok(Self { plan: Some(name.clone()), ..Self::unsaved(&name, plan) })
    }

    /// Reports what is in a plan that is not saved.
    pub(crate) fn unsaved(title: &str, plan: &CompilerOutput) -> Self {
        Self {
            plan: None,
            title: title.to_owned(),
            tensors: plan.tensor_input_metadata.iter().map(|tensor| tensor.name.clone()).collect(),
            steps: plan.steps.len(),
            images: plan.images.len(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = text::count(self.steps, "step");
        let images = text::count(self.images, "image");
        writeln!(f, "{}: tensors {}; {steps}, {images}", self.title, self.tensors.join(", "))
    }
}
