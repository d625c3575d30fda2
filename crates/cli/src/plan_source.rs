//! Where a plan comes from: a folder, or the text of a kernel.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use spyre::OpenSettings;
use spyre::artifact::CompilerOutput;
use spyre::compiler::CompileOptions;
use spyre::numerics::Profile;
use spyre::plans::PlanCache;

use crate::screen;

/// The plan of a folder; or of a kernel, which is compiled unless the cache has it. The environment
/// says for which profile, where nobody else does.
pub(crate) fn load(path: &Path, profile: Option<Profile>) -> Result<CompilerOutput> {
    if path.extension().is_none_or(|extension| extension != "ir") {
        return Ok(CompilerOutput::load(path)?);
    }
    let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    let profile = match profile {
        Some(profile) => profile,
        None => OpenSettings::from_environment()?.profile,
    };
    let cache = PlanCache::of_process()?;
    let plan = cache.plan_of_text(&text, &CompileOptions { profile });
    if let Some(warning) = cache.take_warning() {
        screen::complain("warning", &warning);
    }
    let plan = plan.with_context(|| format!("{}", path.display()))?;
    Ok((*plan).clone())
}
