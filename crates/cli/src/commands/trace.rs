use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;
use spyre::flex::RECORDED;
use spyre::trace::Trace;

use crate::launch::{LaunchArguments, Launched, Summary};
use crate::reports::text;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    launch: LaunchArguments,
    /// The trace to write.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Its format: by default Perfetto's if its name ends in .pftrace, else Chrome's.
    #[arg(long)]
    format: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// The trace event format, which is JSON.
    Chrome,
    /// Perfetto's own.
    Perfetto,
}

impl Format {
    /// Format that a name's extension says.
    pub(crate) fn of(path: &Path) -> Self {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension {
            Some("pftrace" | "perfetto-trace") => Self::Perfetto,
            _ => Self::Chrome,
        }
    }
}

pub(crate) fn report(arguments: &Arguments) -> Result<Report> {
    let prepared = arguments.launch.prepare()?;
    let launched = arguments.launch.launch(&prepared, true)?;
    let format = arguments.format.unwrap_or_else(|| Format::of(&arguments.output));
    let blocks = write(&launched, &arguments.output, format)?;
    Ok(Report {
        trace: arguments.output.display().to_string(),
        format,
        blocks,
        blocks_forgotten: launched.blocks_queued.saturating_sub(blocks as u64),
        summary: launched.summary,
    })
}

/// Writes what a launch's device remembers, and says how many blocks these are.
pub(crate) fn write(launched: &Launched, path: &Path, format: Format) -> Result<usize> {
    let trace = Trace::of_device(&launched.device);
    let bytes = match format {
        Format::Chrome => trace.chrome().into_bytes(),
        Format::Perfetto => trace.perfetto(),
    };
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(trace.blocks().len())
}

/// Report of `spyre trace`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    summary: Summary,
    trace: String,
    format: Format,
    blocks: usize,
    blocks_forgotten: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.summary)?;
        let viewer = match self.format {
            Format::Chrome => "chrome://tracing or ui.perfetto.dev",
            Format::Perfetto => "ui.perfetto.dev",
        };
        let blocks = text::count(self.blocks, "block");
        writeln!(f, "wrote {}: {blocks}, for {viewer}", self.trace)?;
        match self.blocks_forgotten {
            0 => Ok(()),
            blocks => {
                writeln!(f, "the flight recorder keeps the last {RECORDED}: {blocks} are forgotten")
            }
        }
    }
}
