//! Compiled kernels, by what they compute: per card, for as long as the process lives.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use spyre::aten::KernelSource;
use spyre::compiler::CompileOptions;
use spyre::runtime::ExecutionPlan;

use crate::cards::{self, Card};
use crate::failure::Failure;
use crate::plan_cache::plan_cache;

type Plans = RwLock<HashMap<KernelSource, Arc<ExecutionPlan>>>;

static PLANS: [OnceLock<Plans>; cards::MOST] = [const { OnceLock::new() }; cards::MOST];

/// A kernel's plan, on the card.
pub(super) fn of(card: &Card, kernel: &KernelSource) -> Result<Arc<ExecutionPlan>, Failure> {
    let plans = PLANS[usize::from(card.index().0)].get_or_init(Plans::default);
    let known = plans.read().get(kernel).cloned();
    let plan = match known {
        Some(plan) => plan,
        None => {
            let plan = Arc::new(compile(card, kernel)?);
            plans.write().entry(kernel.clone()).or_insert(plan).clone()
        }
    };
    if !plan.is_loaded() {
        plan.load(card.current_stream()?)?;
    }
    Ok(plan)
}

/// The texts of all kernels that were compiled for any card.
pub(super) fn texts() -> Vec<String> {
    let cards = PLANS.iter().filter_map(OnceLock::get);
    let texts: BTreeSet<String> = cards
        .flat_map(|plans| plans.read().keys().map(KernelSource::text).collect::<Vec<_>>())
        .collect();
    texts.into_iter().collect()
}

#[cold]
fn compile(card: &Card, kernel: &KernelSource) -> Result<ExecutionPlan, Failure> {
    let text = kernel.text();
    let options =
        CompileOptions { profile: card.device.profile(), ..cards::settings()?.compile_options() };
    let plan = plan_cache()?.plan_of_text(&text, &options).map_err(|why| {
        Failure::runtime(format!("spyre: internal error, please report it: {why}\n{text}"))
    })?;
    Ok(ExecutionPlan::from_compiler_output((*plan).clone())?)
}
