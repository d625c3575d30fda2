use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use spyre::numerics::Scalar;
use spyre::runtime::CPUTensor;

use crate::arguments::outputs::Outputs;
use crate::commands::trace;
use crate::files::npy::element_bytes;
use crate::launch::{InputReport, LaunchArguments, Summary};
use crate::reports::text;

/// Number of a result's elements that are shown.
const SHOWN: usize = 6;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    launch: LaunchArguments,
    /// Files for the results: a folder for .npy files, FILE.safetensors for all, or name=FILE.
    #[arg(long, short, value_name = "DIR|NAME=FILE")]
    output: Vec<String>,
    /// Writes a trace, too: Chrome's format, or Perfetto's if it ends in .pftrace.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

pub(crate) fn report(arguments: &Arguments) -> Result<Report> {
    let prepared = arguments.launch.prepare()?;
    let outputs = Outputs::new(&prepared.plan.tensor_input_metadata, &arguments.output)?;
    let launched = arguments.launch.launch(&prepared, arguments.trace.is_some())?;
    outputs.write(&launched.outputs)?;
    if let Some(path) = &arguments.trace {
        trace::write(&launched, path, trace::Format::of(path))?;
    }
    let results = launched.outputs.iter().map(|(name, host)| {
        let written = outputs.of(name);
        OutputReport::new(name, host, written)
    });
    Ok(Report {
        outputs: results.collect::<Result<_>>()?,
        trace: arguments.trace.as_ref().map(|path| path.display().to_string()),
        summary: launched.summary,
    })
}

/// Report of `spyre run`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    summary: Summary,
    outputs: Vec<OutputReport>,
    trace: Option<String>,
}

#[derive(Debug, Serialize)]
struct OutputReport {
    name: String,
    dtype: &'static str,
    shape: Vec<usize>,
    /// Numbers; those that JSON has not are text.
    first_values: Vec<Value>,
    crc32: String,
    files: Vec<String>,
    #[serde(skip)]
    shown: String,
}

impl OutputReport {
    fn new(name: &str, host: &CPUTensor, files: Vec<String>) -> Result<Self> {
        let dtype = host.data_type();
        let bytes = host.buffer().read()?;
        let elements = bytes.chunks_exact(element_bytes(dtype));
        let values: Result<Vec<Scalar>, _> = elements
            .clone()
            .take(SHOWN)
            .map(|element| Scalar::decode(dtype.host_format(), element))
            .collect();
        let values = values?;
        let mut shown: Vec<String> = values.iter().map(|value| value_text(*value)).collect();
        if elements.len() > SHOWN {
            shown.push("..".to_owned());
        }
        Ok(Self {
            name: name.to_owned(),
            dtype: dtype.name(),
            shape: host.shape().to_vec(),
            first_values: values.into_iter().map(value_json).collect(),
            crc32: format!("{:08x}", crc32fast::hash(&bytes)),
            files,
            shown: shown.join(" "),
        })
    }
}

fn value_text(value: Scalar) -> String {
    match value {
        Scalar::Single(number) => number.to_string(),
        Scalar::Double(number) => number.to_string(),
        Scalar::Signed(number) => number.to_string(),
        Scalar::Unsigned(number) => number.to_string(),
        Scalar::ComplexSingle(real, imaginary) => format!("{real}{imaginary:+}i"),
        Scalar::ComplexDouble(real, imaginary) => format!("{real}{imaginary:+}i"),
    }
}

fn value_json(value: Scalar) -> Value {
    match value {
        Scalar::Single(number) if number.is_finite() => json!(number),
        Scalar::Double(number) if number.is_finite() => json!(number),
        Scalar::Signed(number) => json!(number),
        Scalar::Unsigned(number) => json!(number),
        other => json!(value_text(other)),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.summary)?;
        let row = |output: &OutputReport| {
            let OutputReport { name, dtype, shape, shown, crc32, .. } = output;
            let mut row = vec![name.clone(), (*dtype).to_owned(), text::shape(shape)];
            row.extend([shown.clone(), format!("crc32 {crc32}")]);
            row
        };
        let rows: Vec<Vec<String>> = self.outputs.iter().map(row).collect();
        write!(f, "{}", text::columns(&rows))?;
        for output in &self.outputs {
            for file in &output.files {
                writeln!(f, "wrote {file}")?;
            }
        }
        if let Some(trace) = &self.trace {
            writeln!(f, "wrote {trace}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, steps, mode, profile, engines, .. } = self;
        let engines = text::count(usize::from(*engines), "engine");
        writeln!(f, "{plan}: {} on {mode}, profile {profile}, {engines}", steps.join(", "))?;
        let launches = text::count(self.launches as usize, "launch").replace("launchs", "launches");
        let time = |nanoseconds| text::duration(Duration::from_nanos(nanoseconds));
        let blocks = text::count(self.blocks_per_launch as usize, "block");
        write!(f, "{launches} of {blocks}: ")?;
        match self.launches {
            1 => write!(f, "{}", time(self.first_nanoseconds))?,
            _ => write!(
                f,
                "median {}, first {}, fastest {}",
                time(self.median_nanoseconds),
                time(self.first_nanoseconds),
                time(self.fastest_nanoseconds)
            )?,
        }
        writeln!(f)?;
        if let Some(modelled) = &self.modelled {
            writeln!(f, "a launch on a real card: {modelled}")?;
        }
        if let Some(copies) = self.modelled_tensor_copies_nanoseconds.filter(|&copies| copies > 0) {
            writeln!(f, "tensors there and back: {} (assumed)", time(copies))?;
        }
        let row = |input: &InputReport| {
            let shape = text::shape(&input.shape);
            vec![input.name.clone(), input.dtype.to_owned(), shape, input.source.clone()]
        };
        let rows: Vec<Vec<String>> = self.inputs.iter().map(row).collect();
        write!(f, "{}", text::columns(&rows))
    }
}
