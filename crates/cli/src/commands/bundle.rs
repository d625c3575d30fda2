use std::fmt;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use spyre::compiler::CompileOptions;
use spyre::plans::Bundle;

use crate::launch::ProfileName;
use crate::reports::text;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The file to write.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Numeric profile of the device.
    #[arg(long, default_value = "open")]
    profile: ProfileName,
}

pub(crate) fn write(arguments: &Arguments) -> Result<Report> {
    let options = CompileOptions::for_profile(arguments.profile.into());
    let bytes = Bundle::compile_common(&options)?;
    let name = arguments.file.display().to_string();
    fs::write(&arguments.file, &bytes).with_context(|| name.clone())?;
    let length = bytes.len() as u64;
    Ok(Report { file: name, plans: Bundle::new(bytes)?.len(), bytes: length })
}

/// Report of `spyre bundle`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    file: String,
    plans: usize,
    bytes: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plans = text::count(self.plans, "plan");
        writeln!(f, "{}: {plans}, {}", self.file, text::bytes(self.bytes))
    }
}
