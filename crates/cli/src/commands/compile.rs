use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use spyre::compiler::{CardNote, CompileOptions, DimId, Kernel, Layouts, OperandId, Stick};
use spyre::numerics::Profile;

use crate::commands::plan;
use crate::files::plain_file;
use crate::launch::ProfileName;
use crate::reports::prediction::{self, PredictionReport};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The kernel's text.
    #[arg(value_name = "KERNEL")]
    kernel: PathBuf,
    /// The folder to write; it must not be there yet. Without one, the kernel is only checked.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Numeric profile of the device. For the card, what a real one would refuse is shown.
    #[arg(long, default_value = "open")]
    profile: ProfileName,
    /// The most elements of each dim that a program is made for: larger tensors are launched tile by
    /// tile.
    #[arg(long, value_name = "N")]
    max_tile: Option<NonZeroU32>,
    /// Shows what the kernel would take on a real card, with dims of these extents.
    #[arg(long, value_name = "DIM=N,..")]
    predict: Option<String>,
    /// Shows along which dims the sticks of all tensors run, given those of some; for the card, what
    /// lies otherwise than it needs it is turned by steps of the plan.
    #[arg(long, value_name = "TENSOR=DIM,..", num_args = 0..=1, default_missing_value = "")]
    layouts: Option<String>,
}

pub(crate) fn write(arguments: &Arguments) -> Result<Report> {
    let path = arguments.kernel.display();
    let text = plain_file::kernel_text(&arguments.kernel)?;
    let kernel: Kernel = text.parse().with_context(|| format!("{path}"))?;
    let options =
        CompileOptions { profile: arguments.profile.into(), max_tile: arguments.max_tile };
    let extents = arguments.predict.as_deref().map(prediction::extents).transpose()?;
    let card = (options.profile == Profile::Card).then(|| {
        let notes = kernel.card_report(extents.as_deref().unwrap_or_default());
        notes.iter().map(NoteReport::new).collect()
    });
    let given = arguments.layouts.as_deref().map(|given| sticks(&kernel, given)).transpose()?;
    let plan = match &given {
        Some(given) => kernel.compile_laid_out(&options, given),
        None => kernel.compile(&options),
    };
    let plan = plan.with_context(|| format!("{path}"))?;
    let layouts = given.map(|given| LayoutsReport::new(&kernel, options.profile, &given));
    let predicted = extents.map(|extents| PredictionReport::new(&kernel, &options, &extents));
    let written = match &arguments.output {
        Some(output) => plan::Report::save(&plan, output)?,
        None => plan::Report::unsaved(kernel.name(), &plan),
    };
    Ok(Report { written, card, layouts, predicted: predicted.transpose()? })
}

/// Layouts as in `a=m,b=k`; `sparse` is one element in each stick.
fn sticks(kernel: &Kernel, given: &str) -> Result<Vec<(OperandId, Stick)>> {
    let stick = |part: &str| {
        let (name, dim) = part.split_once('=').with_context(|| {
            format!("{part:?} is no layout: give a tensor and one of its dims, as in a=m")
        })?;
        let at = kernel.operands().iter().position(|operand| operand.name == name.trim());
        let at = at.with_context(|| format!("there is no tensor {name:?}"))?;
        if dim.trim() == "sparse" {
            return Ok((OperandId(at as u32), Stick::Sparse));
        }
        let own = &kernel.operands()[at].dims;
        let dim = own.iter().find(|&&own: &&DimId| kernel.dim_name(own) == dim.trim());
        let dim = dim.with_context(|| format!("{part:?}: the tensor has no such dim"))?;
        Ok((OperandId(at as u32), Stick::Along(*dim)))
    };
    given.split(',').filter(|part| !part.trim().is_empty()).map(stick).collect()
}

/// Report of `spyre compile`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    written: plan::Report,
    /// `None`: not for the card.
    card: Option<Vec<NoteReport>>,
    /// `None`: not asked for.
    layouts: Option<LayoutsReport>,
    predicted: Option<PredictionReport>,
}

#[derive(Debug, Serialize)]
struct NoteReport {
    verdict: &'static str,
    text: String,
}

#[derive(Debug, Serialize)]
struct LayoutsReport {
    tensors: Vec<TensorLayout>,
    restickify: Vec<RestickifiedTensor>,
    #[serde(skip)]
    text: String,
}

#[derive(Debug, Serialize)]
struct TensorLayout {
    name: String,
    stick: String,
}

#[derive(Debug, Serialize)]
struct RestickifiedTensor {
    what: String,
    from: String,
    to: String,
}

impl NoteReport {
    fn new(note: &CardNote) -> Self {
        Self { verdict: note.verdict().name(), text: note.to_string() }
    }
}

impl LayoutsReport {
    fn new(kernel: &Kernel, profile: Profile, given: &[(OperandId, Stick)]) -> Self {
        let layouts: Layouts = kernel.layouts(profile, given);
        let name = |stick: Stick| stick.name(kernel).to_owned();
        let tensors = kernel.operands().iter().zip(&layouts.operands);
        let turns = layouts.restickify.iter();
        Self {
            tensors: tensors
                .map(|(operand, &stick)| TensorLayout {
                    name: operand.name.clone(),
                    stick: name(stick),
                })
                .collect(),
            restickify: turns
                .map(|turn| RestickifiedTensor {
                    what: turn.what.name(kernel),
                    from: name(turn.from),
                    to: name(turn.to),
                })
                .collect(),
            text: layouts.show(kernel).to_string(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.written)?;
        match self.card.as_deref() {
            Some([]) => writeln!(f, "a real card would do all of it")?,
            Some(notes) => {
                writeln!(f, "on a real card")?;
                notes.iter().try_for_each(|note| writeln!(f, "  {}", note.text))?;
            }
            None => {}
        }
        if let Some(layouts) = &self.layouts {
            write!(f, "layouts\n{}", layouts.text)?;
        }
        self.predicted.iter().try_for_each(|predicted| write!(f, "{predicted}"))
    }
}
