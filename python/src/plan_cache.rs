//! The plans of this process: those that ship with the package, those of the folder that processes
//! share, and what is compiled because neither has it.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use spyre::plans::{Bundle, CacheSettings, PlanCache};

use crate::failure::Failure;

static CACHE: OnceLock<PlanCache> = OnceLock::new();
static BUNDLE: OnceLock<PathBuf> = OnceLock::new();

/// The cache, which is opened when the first kernel is asked for.
pub(crate) fn plan_cache() -> Result<&'static PlanCache, Failure> {
    if let Some(cache) = CACHE.get() {
        return Ok(cache);
    }
    let settings = CacheSettings::from_environment().map_err(Failure::runtime)?;
    Ok(CACHE.get_or_init(|| {
        let cache = PlanCache::new(settings);
        match shipped() {
            Some(bundle) => cache.with_bundle(bundle),
            None => cache,
        }
    }))
}

/// Plans that ship with the package. If they are missing or broken, kernels are compiled when they are first
/// launched. A package that is built by hand has no bundle. The bundle of another compiler is never hit.
fn shipped() -> Option<Bundle> {
    Bundle::new(fs::read(BUNDLE.get()?).ok()?).ok()
}

/// Says where the plans are that ship with the package. Nothing is read yet.
#[pyfunction]
fn set_plan_bundle(path: PathBuf) {
    // Who comes second is of the same package.
    let _ = BUNDLE.set(path);
}

/// Counts of the plans until now, by where they came from.
#[pyfunction]
fn plan_stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let counts = CACHE.get().map(PlanCache::statistics).unwrap_or_default();
    let numbers = PyDict::new(py);
    numbers.set_item("plans", counts.plans)?;
    numbers.set_item("memory_hits", counts.memory_hits)?;
    numbers.set_item("bundle_hits", counts.bundle_hits)?;
    numbers.set_item("folder_hits", counts.folder_hits)?;
    numbers.set_item("compiled", counts.compiled)?;
    numbers.set_item("broken", counts.broken)?;
    Ok(numbers)
}

/// Adds the names of this part to the extension module.
pub(crate) fn register(names: &Bound<'_, PyModule>) -> PyResult<()> {
    names.add_function(wrap_pyfunction!(set_plan_bundle, names)?)?;
    names.add_function(wrap_pyfunction!(plan_stats, names)?)
}
