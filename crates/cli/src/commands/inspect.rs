mod image;
mod step;

use std::fmt;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;
use spyre::artifact::{
    ExpectedDim, ExpectedSize, FORMAT_VERSION, InitPacket, InitTarget, Intermediate,
    IntermediateDim, Role, TensorMetadata,
};

use crate::arguments::plan_source;
use crate::reports::prediction::PredictionReport;
use crate::reports::text;
use image::ImageReport;
use step::StepReport;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The plan's folder, or a kernel's text (`.ir`).
    plan: PathBuf,
    /// Shows the programs, instruction by instruction.
    #[arg(long)]
    disassemble: bool,
    /// Shows this image only.
    #[arg(long, value_name = "N")]
    image: Option<usize>,
    /// Shows the bytes of images.
    #[arg(long)]
    hex: bool,
    /// Shows what a kernel would take on a real card, with dims of these extents.
    #[arg(long, value_name = "DIM=N,..")]
    predict: Option<String>,
}

pub(crate) fn report(arguments: &Arguments) -> Result<Report> {
    let plan = plan_source::load(&arguments.plan, None)?;
    let count = plan.images.len();
    if let Some(image) = arguments.image {
        ensure!(image < count, "there is no image {image}: the plan has {count}, from 0 on");
    }
    let predicted = arguments.predict.as_deref();
    let predicted =
        predicted.map(|given| plan_source::predict(&arguments.plan, given)).transpose()?;
    let is_shown = |at: &usize| arguments.image.is_none_or(|image| image == *at);
    let images = (0..count)
        .filter(is_shown)
        .map(|at| ImageReport::new(at, &plan.images[at], arguments.disassemble, arguments.hex));
    Ok(Report {
        plan: arguments.plan.display().to_string(),
        format_version: FORMAT_VERSION,
        profile: text::profile(plan.options.profile),
        max_tile: plan.options.max_tile.map(u32::from),
        tensors: plan.tensor_input_metadata.iter().map(TensorReport::new).collect(),
        intermediates: plan.intermediates.iter().map(IntermediateReport::new).collect(),
        steps: (0..plan.steps.len()).map(|at| StepReport::new(&plan, at)).collect(),
        init_packets: plan.init_packets.iter().map(PacketReport::new).collect(),
        images: images.collect(),
        predicted,
    })
}

/// Report of `spyre inspect`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    plan: String,
    format_version: u32,
    profile: &'static str,
    max_tile: Option<u32>,
    tensors: Vec<TensorReport>,
    intermediates: Vec<IntermediateReport>,
    steps: Vec<StepReport>,
    init_packets: Vec<PacketReport>,
    images: Vec<ImageReport>,
    /// `None`: not asked for.
    predicted: Option<PredictionReport>,
}

#[derive(Debug, Serialize)]
struct TensorReport {
    name: String,
    role: &'static str,
    dtype: &'static str,
    format: &'static str,
    dims: Vec<DimReport>,
}

#[derive(Debug, Serialize)]
struct DimReport {
    name: String,
    /// `None`: any.
    tile: Option<u64>,
}

#[derive(Debug, Serialize)]
struct IntermediateReport {
    name: String,
    format: &'static str,
    dims: Vec<String>,
}

#[derive(Debug, Serialize)]
struct PacketReport {
    image: &'static str,
    step: u32,
    offset: u64,
    bytes: String,
}

impl TensorReport {
    fn new(tensor: &TensorMetadata) -> Self {
        let role = match tensor.role {
            Role::Input => "input",
            Role::Output => "output",
            Role::Both => "both",
        };
        let dim = |dim: &ExpectedDim| {
            let tile = match dim.size {
                ExpectedSize::Fixed(tile) => Some(tile.get()),
                ExpectedSize::Any => None,
            };
            DimReport { name: dim.name.clone(), tile }
        };
        Self {
            name: tensor.name.clone(),
            role,
            dtype: tensor.dtype.name(),
            format: tensor.format.name(),
            dims: tensor.dims.iter().map(dim).collect(),
        }
    }

    fn row(&self) -> Vec<String> {
        let dims: Vec<String> = self.dims.iter().map(ToString::to_string).collect();
        let elements = format!("{} as {}", self.dtype, self.format);
        vec![self.name.clone(), self.role.to_owned(), elements, dims.join(" x ")]
    }
}

impl IntermediateReport {
    fn new(intermediate: &Intermediate) -> Self {
        let dim = |dim: &IntermediateDim| match dim {
            IntermediateDim::Named(name) => name.clone(),
            IntermediateDim::Fixed(elements) => elements.to_string(),
        };
        Self {
            name: intermediate.name.clone(),
            format: intermediate.format.name(),
            dims: intermediate.dims.iter().map(dim).collect(),
        }
    }

    fn row(&self) -> Vec<String> {
        vec![self.name.clone(), self.format.to_owned(), self.dims.join(" x ")]
    }
}

impl PacketReport {
    fn new(packet: &InitPacket) -> Self {
        let (image, step) = match packet.image {
            InitTarget::Entry(step) => ("entry", step),
            InitTarget::Correction(step) => ("correction", step),
        };
        let bytes = packet.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { image, step, offset: packet.offset, bytes }
    }

    fn row(&self) -> Vec<String> {
        let place = format!("{} of step {}", self.image, self.step);
        let length = text::count(self.bytes.len() / 2, "byte");
        let bytes = match self.bytes.len() {
            0..=64 => self.bytes.clone(),
            _ => format!("{}..", &self.bytes[..64]),
        };
        vec![place, format!("at {}", self.offset), length, bytes]
    }
}

impl fmt::Display for DimReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tile {
            Some(tile) => write!(f, "{}={tile}", self.name),
            None => write!(f, "{}=any", self.name),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, format_version, profile, .. } = self;
        write!(f, "{plan}: plan version {format_version}, profile {profile}")?;
        match self.max_tile {
            Some(tile) => writeln!(f, ", tiles of at most {tile}")?,
            None => writeln!(f)?,
        }
        let tensors: Vec<_> = self.tensors.iter().map(TensorReport::row).collect();
        section(f, "tensors", &tensors)?;
        let intermediates: Vec<_> =
            self.intermediates.iter().map(IntermediateReport::row).collect();
        section(f, "intermediates", &intermediates)?;
        self.steps.iter().try_for_each(|step| write!(f, "{step}"))?;
        let packets: Vec<_> = self.init_packets.iter().map(PacketReport::row).collect();
        section(f, "init packets", &packets)?;
        self.images.iter().try_for_each(|image| write!(f, "{image}"))?;
        self.predicted.iter().try_for_each(|predicted| write!(f, "{predicted}"))
    }
}

/// A title and its rows, where there are any.
fn section(f: &mut fmt::Formatter<'_>, title: &str, rows: &[Vec<String>]) -> fmt::Result {
    if rows.is_empty() { Ok(()) } else { write!(f, "{title}\n{}", text::columns(rows)) }
}
