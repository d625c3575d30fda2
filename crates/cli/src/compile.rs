use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use spyre::compiler::{CompileOptions, Kernel};

use crate::launch::ProfileName;
use crate::plan::Report;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The kernel's text.
    #[arg(value_name = "KERNEL")]
    kernel: PathBuf,
    /// The folder to write; it must not be there yet.
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// Which numbers the device keeps.
    #[arg(long, default_value = "open")]
    profile: ProfileName,
}

pub(crate) fn write(arguments: &Arguments) -> Result<Report> {
    let path = arguments.kernel.display();
    let text = fs::read_to_string(&arguments.kernel).with_context(|| format!("{path}"))?;
    let kernel: Kernel = text.parse().with_context(|| format!("{path}"))?;
    let options = CompileOptions { profile: arguments.profile.into() };
    let plan = kernel.compile(&options).with_context(|| format!("{path}"))?;
    Report::save(&plan, &arguments.output)
}
