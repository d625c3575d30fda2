//! A plan from a folder, launched: what `run` and `trace` share.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use serde::Serialize;
use spyre::OpenSettings;
use spyre::artifact::cost::CostBreakdown;
use spyre::artifact::{CompilerOutput, Role, TensorMetadata};
use spyre::hal::{DeviceRange, MemoryMode, Pattern};
use spyre::numerics::Profile;
use spyre::runtime::{
    CPUTensor, Device, ExecutionPlan, SpyreStream, SpyreTensor, launch_kernel_with,
};
use spyre::trace::Trace;

use crate::arguments::fill::Fill;
use crate::arguments::inputs::{self, InputTensor};
use crate::arguments::plan_source;
use crate::arguments::scalars;
use crate::arguments::sizes::{self, ShapeArgument};
use crate::files::npy::element_bytes;
use crate::reports::cost_report::CostReport;
use crate::reports::screen;
use crate::reports::text;

#[derive(Debug, Args)]
pub(crate) struct LaunchArguments {
    /// The plan's folder, or a kernel's text (`.ir`).
    plan: PathBuf,
    /// Tensors: name=FILE, FILE.npy in the plan's order, or FILE.safetensors by its names.
    inputs: Vec<String>,
    /// A number that the plan's programs are given, in their order.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    scalar: Vec<String>,
    /// The sizes of a tensor (c=256x64) or of a dim (m=256).
    #[arg(long, value_name = "NAME=RxC")]
    shape: Vec<ShapeArgument>,
    /// Makes up the inputs that are not given.
    #[arg(long)]
    fill: Option<Fill>,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 0, requires = "fill")]
    seed: u64,
    /// Number of launches.
    #[arg(long, default_value = "1", value_name = "N")]
    repeat: NonZeroU32,
    /// Numeric profile of the device: by default what SPYRE_PROFILE says, or else the plan.
    #[arg(long)]
    profile: Option<ProfileName>,
    /// Number of blocks that the device carries out at a time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    engines: u16,
    /// Memory mode of the device: by default what FLEX_DEVICE says.
    #[arg(long, ignore_case = true)]
    mode: Option<ModeName>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ProfileName {
    /// Everything exactly.
    Open,
    /// Numbers as on the real card.
    Card,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Open => Self::Open,
            ProfileName::Card => Self::Card,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeName {
    #[value(name = "PF")]
    Pf,
    #[value(name = "VF")]
    Vf,
}

/// A launch that is checked as far as the host can, and not begun.
pub(crate) struct Prepared {
    pub(crate) plan: CompilerOutput,
    settings: OpenSettings,
    tensors: Vec<Prepare>,
    scalars: Vec<u64>,
}

/// A tensor to be: what it measures, and where its elements come from.
struct Prepare {
    shape: Vec<usize>,
    elements: Option<(CPUTensor, String)>,
}

/// Facts about a launch, and its results.
pub(crate) struct Launched {
    pub(crate) device: Device,
    pub(crate) outputs: Vec<(String, CPUTensor)>,
    pub(crate) blocks_queued: u64,
    pub(crate) summary: Summary,
}

/// Facts that are reported about every launch.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) plan: String,
    pub(crate) steps: Vec<String>,
    pub(crate) mode: &'static str,
    pub(crate) profile: &'static str,
    pub(crate) engines: u16,
    pub(crate) inputs: Vec<InputReport>,
    pub(crate) launches: u32,
    pub(crate) blocks_per_launch: u64,
    pub(crate) first_nanoseconds: u64,
    pub(crate) median_nanoseconds: u64,
    pub(crate) fastest_nanoseconds: u64,
    /// Modelled time of one launch; `None` where nothing is modelled, or the recorder did not keep
    /// all of it.
    pub(crate) modelled_nanoseconds: Option<u64>,
    /// Parts of the modelled time of one launch.
    pub(crate) modelled: Option<CostReport>,
    /// Modelled time to copy the tensors to the card for the launches, and their results back.
    pub(crate) modelled_tensor_copies_nanoseconds: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct InputReport {
    pub(crate) name: String,
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<usize>,
    pub(crate) source: String,
}

impl LaunchArguments {
    /// Reads the plan and the tensors, and finds out what each tensor measures.
    pub(crate) fn prepare(&self) -> Result<Prepared> {
        let plan = plan_source::load(&self.plan, self.profile.map(Profile::from))?;
        let settings = self.settings(&plan)?;
        let metadata = &plan.tensor_input_metadata;
        let given = inputs::read(metadata, &self.inputs)?;
        self.check_missing(metadata, &given)?;
        let shapes = sizes::infer(metadata, &given, &self.shape)?;
        check_bytes(metadata, &shapes, settings.devices.memory_limit_bytes)?;
        let scalars = scalars::parse(&plan, &self.scalar)?;
        let tensors = given.into_iter().zip(shapes).enumerate();
        let tensors: Result<Vec<Prepare>> = tensors
            .map(|(at, (given, shape))| self.prepare_tensor(&metadata[at], at, given, shape))
            .collect();
        let tensors = tensors?;
        Ok(Prepared { plan, settings, tensors, scalars })
    }

    fn settings(&self, plan: &CompilerOutput) -> Result<OpenSettings> {
        let mut settings = OpenSettings::from_environment()?;
        if let Some(warning) = settings.devices.warning() {
            screen::complain("warning", &warning);
        }
        settings.engines = self.engines;
        match self.profile {
            Some(profile) => settings.profile = profile.into(),
            None if std::env::var_os("SPYRE_PROFILE").is_none() => {
                settings.profile = plan.options.profile;
            }
            None => {}
        }
        match self.mode {
            Some(ModeName::Pf) => settings.devices.mode = MemoryMode::Pf,
            Some(ModeName::Vf) => settings.devices.mode = MemoryMode::Vf,
            None => {}
        }
        Ok(settings)
    }

    /// Checks that every tensor that is read is given, or made up.
    fn check_missing(
        &self,
        tensors: &[TensorMetadata],
        given: &[Option<InputTensor>],
    ) -> Result<()> {
        let is_missing = |(tensor, given): &(&TensorMetadata, &Option<InputTensor>)| {
            tensor.role != Role::Output && given.is_none()
        };
        let missing = tensors.iter().zip(given).filter(is_missing);
        let missing: Vec<&str> = missing.map(|(tensor, _)| &*tensor.name).collect();
        ensure!(
            missing.is_empty() || self.fill.is_some(),
            "{} not given: {}. Give {}, or make them up with --fill random",
            if missing.len() == 1 { "a tensor is" } else { "tensors are" },
            missing.join(", "),
            missing.iter().map(|name| format!("{name}=FILE.npy")).collect::<Vec<_>>().join(" "),
        );
        Ok(())
    }

    fn prepare_tensor(
        &self,
        metadata: &TensorMetadata,
        place: usize,
        given: Option<InputTensor>,
        shape: Vec<usize>,
    ) -> Result<Prepare> {
        let elements = match (given, self.fill) {
            (Some(given), _) => Some((given.host, given.source)),
            (None, Some(fill)) if metadata.role != Role::Output => {
                let host = fill.tensor(&shape, metadata.dtype, self.seed, place)?;
                Some((host, fill.describe(self.seed)))
            }
            (None, _) => None,
        };
        Ok(Prepare { shape, elements })
    }

    /// Launches as often as asked, and reads the results.
    pub(crate) fn launch(&self, prepared: &Prepared, is_traced: bool) -> Result<Launched> {
        let Prepared { plan, settings, tensors, scalars } = prepared;
        let device = settings.open(0)?;
        device.context().scheduler().set_tracing(is_traced);
        let stream = device.default_stream()?;
        let loaded = ExecutionPlan::from_compiler_output(plan.clone())?;
        loaded.load(&stream)?;
        let metadata = &plan.tensor_input_metadata;
        let placed: Result<Vec<SpyreTensor>> = metadata
            .iter()
            .zip(tensors)
            .map(|(tensor, made)| made.place(&stream, tensor))
            .collect();
        let placed = placed?;
        stream.synchronize()?;

        let mut times = Vec::new();
        let mut blocks_per_launch = 0;
        let mut modelled_launch = None;
        let bar = ProgressBar::new(self.repeat.get().into()); // drawn on terminals only
        for nth in 0..self.repeat.get() {
            if nth > 0 {
                restore(&stream, metadata, tensors, &placed)?;
            }
            let before = last_sequence(&stream);
            let start = Instant::now();
            let point = launch_kernel_with(&stream, &loaded, &placed, scalars)?;
            stream.synchronize()?;
            times.push(start.elapsed());
            blocks_per_launch = point.sequence - before;
            if nth + 1 == self.repeat.get() {
                modelled_launch = modelled(&stream, before + 1..=point.sequence);
            }
            bar.inc(1);
        }
        bar.finish_and_clear();

        let mut outputs = Vec::new();
        for (tensor, placed) in metadata.iter().zip(&placed) {
            if tensor.role.is_written() {
                outputs.push((tensor.name.clone(), placed.to_host(&stream)?));
            }
        }
        stream.synchronize()?;
        let blocks_queued = last_sequence(&stream);
        let copies = modelled(&stream, 1..=blocks_queued).map(|all| all.copies);
        let mut summary = self.summary(prepared, blocks_per_launch, times);
        summary.modelled_nanoseconds = modelled_launch.map(CostBreakdown::total);
        summary.modelled = modelled_launch.map(CostReport::from);
        summary.modelled_tensor_copies_nanoseconds = copies;
        Ok(Launched { device, outputs, blocks_queued, summary })
    }

    fn summary(
        &self,
        prepared: &Prepared,
        blocks_per_launch: u64,
        mut times: Vec<Duration>,
    ) -> Summary {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let first_nanoseconds = nanoseconds(times[0]);
        times.sort();
        let Prepared { plan, settings, tensors, .. } = prepared;
        let inputs = plan.tensor_input_metadata.iter().zip(tensors).filter_map(|(tensor, made)| {
            let (_, source) = made.elements.as_ref()?;
            let name = tensor.name.clone();
            let dtype = tensor.dtype.name();
            Some(InputReport { name, dtype, shape: made.shape.clone(), source: source.clone() })
        });
        Summary {
            plan: self.plan.display().to_string(),
            steps: plan.steps.iter().map(|step| step.name.clone()).collect(),
            mode: text::mode(settings.devices.mode),
            profile: text::profile(settings.profile),
            engines: settings.engines,
            inputs: inputs.collect(),
            launches: self.repeat.get(),
            blocks_per_launch,
            first_nanoseconds,
            median_nanoseconds: nanoseconds(times[times.len() / 2]),
            fastest_nanoseconds: nanoseconds(times[0]),
            modelled_nanoseconds: None,
            modelled: None,
            modelled_tensor_copies_nanoseconds: None,
        }
    }
}

impl Prepare {
    /// The tensor on the device: with its elements, or zeros.
    fn place(&self, stream: &SpyreStream, metadata: &TensorMetadata) -> Result<SpyreTensor> {
        let name = || format!("tensor {:?} of shape {}", metadata.name, text::shape(&self.shape));
        let tensor = SpyreTensor::empty(stream, &self.shape, metadata.dtype).with_context(name)?;
        match &self.elements {
            Some((host, _)) => tensor.copy_from(stream, host).with_context(name)?,
            None if tensor.size_bytes() > 0 => {
                let range = DeviceRange::start_of(tensor.device_handle(), tensor.size_bytes());
                stream.flex().fill(range, Pattern::from(0))?;
            }
            None => {}
        }
        Ok(tensor)
    }
}

/// Undoes what a launch did to the tensors that it reads and writes.
fn restore(
    stream: &SpyreStream,
    metadata: &[TensorMetadata],
    tensors: &[Prepare],
    placed: &[SpyreTensor],
) -> Result<()> {
    for ((tensor, made), placed) in metadata.iter().zip(tensors).zip(placed) {
        if let (Role::Both, Some((host, _))) = (tensor.role, &made.elements) {
            placed.copy_from(stream, host)?;
        }
    }
    Ok(stream.synchronize()?)
}

/// Number of blocks that a stream was given, when all have ended.
fn last_sequence(stream: &SpyreStream) -> u64 {
    let records = stream.device().context().scheduler().flight_record();
    let of_stream = records.iter().filter(|record| record.stream == stream.flex().index());
    of_stream.map(|record| record.sequence).max().unwrap_or(0)
}

/// Modelled time of these blocks on a real card, one after the other.
fn modelled(stream: &SpyreStream, blocks: RangeInclusive<u64>) -> Option<CostBreakdown> {
    let device = stream.device();
    let mut records = device.context().scheduler().flight_record();
    records.retain(|record| {
        record.stream == stream.flex().index() && blocks.contains(&record.sequence)
    });
    let is_whole = records.len() as u64 == blocks.end() + 1 - blocks.start();
    let cost = Trace::new(device.index(), records).cost();
    Some(cost).filter(|cost| is_whole && cost.total() > 0)
}

/// Refuses shapes that no memory holds, before any is taken.
fn check_bytes(tensors: &[TensorMetadata], shapes: &[Vec<usize>], limit_bytes: u64) -> Result<()> {
    let mut all = 0_u64;
    for (tensor, shape) in tensors.iter().zip(shapes) {
        let elements = shape.iter().try_fold(1_u64, |all, &size| all.checked_mul(size as u64));
        let bytes = elements.and_then(|all| all.checked_mul(element_bytes(tensor.dtype) as u64));
        let sum = bytes.and_then(|bytes| all.checked_add(bytes));
        match sum.filter(|&sum| sum <= limit_bytes) {
            Some(sum) => all = sum,
            None => bail!(
                "tensor {:?} of shape {} does not fit: {} of {} are taken by those before it. \
                 SPYRE_MEMORY_LIMIT says how much may be used",
                tensor.name,
                text::shape(shape),
                text::bytes(all),
                text::bytes(limit_bytes)
            ),
        }
    }
    Ok(())
}
