//! Sources of a plan: a folder, or the text of a kernel.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use spyre::OpenSettings;
use spyre::artifact::CompilerOutput;
use spyre::compiler::{CompileOptions, Kernel};
use spyre::numerics::Profile;
use spyre::plans::PlanCache;

use crate::files::plain_file;
use crate::reports::prediction::{self, PredictionReport};
use crate::reports::screen;

/// The plan of a folder; or of a kernel, which is compiled unless the cache has it. If no profile is
/// given, the environment says which one a kernel is compiled for.
pub(crate) fn load(path: &Path, profile: Option<Profile>) -> Result<CompilerOutput> {
    if !is_kernel(path) {
        return Ok(CompilerOutput::load(path)?);
    }
    let text = plain_file::kernel_text(path)?;
    let options = options(profile)?;
    let cache = PlanCache::of_process()?;
    let plan = cache.plan_of_text(&text, &options);
    if let Some(warning) = cache.take_warning() {
        screen::complain("warning", &warning);
    }
    let plan = plan.with_context(|| format!("{}", path.display()))?;
    Ok((*plan).clone())
}

/// Predicts the time of a kernel on a real card, with dims of these extents.
pub(crate) fn predict(path: &Path, extents: &str) -> Result<PredictionReport> {
    let name = path.display();
    ensure!(
        is_kernel(path),
        "{name}: a plan does not say what it was made from; give the kernel's text"
    );
    let kernel: Kernel =
        plain_file::kernel_text(path)?.parse().with_context(|| format!("{name}"))?;
    PredictionReport::new(&kernel, &options(None)?, &prediction::extents(extents)?)
}

fn is_kernel(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "ir")
}

fn options(profile: Option<Profile>) -> Result<CompileOptions> {
    let profile = match profile {
        Some(profile) => profile,
        None => OpenSettings::from_environment()?.profile,
    };
    Ok(CompileOptions::for_profile(profile))
}
