use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;
use spyre::artifact::{CompilerOutput, Lane};
use spyre::compiler::{self, CompileOptions, Operand, ParseError};
use spyre::plans::PlanError;

use super::PreparedPlan;
use super::kernel_checks::KernelChecks;
use crate::cards;
use crate::failure::{Failure, SpyreStatus};
use crate::plan_cache::plan_cache;

/// A kernel that was compiled from its text: a plan for any card, and what a launch is given.
#[pyclass(frozen, module = "torch_spyre._C")]
#[derive(Debug)]
pub(crate) struct CompiledKernel {
    kernel: compiler::Kernel,
    output: Arc<CompilerOutput>,
    checks: Arc<KernelChecks>,
    /// The cards that it lies on.
    plans: Mutex<Vec<Arc<PreparedPlan>>>,
}

#[pymethods]
impl CompiledKernel {
    /// Name of the kernel.
    #[getter]
    fn name(&self) -> &str {
        self.kernel.name()
    }

    /// Its text, as the compiler spells it.
    #[getter]
    pub(super) fn text(&self) -> String {
        self.kernel.to_string()
    }

    /// Its tensors: name, dtype, the names of dims, and "in", "out" or "inout".
    fn operands(&self) -> Vec<(&str, String, Vec<&str>, &'static str)> {
        let dims =
            |operand: &Operand| operand.dims.iter().map(|&dim| self.kernel.dim_name(dim)).collect();
        let operands = self.kernel.operands().iter();
        operands
            .map(|of| (of.name.as_str(), of.dtype.to_string(), dims(of), of.role.name()))
            .collect()
    }

    /// Its scalars: name, and whether it is an "int", a "float" or a "bool".
    fn scalars(&self) -> Vec<(&str, &'static str)> {
        let kind = |lane| match lane {
            Lane::I64 => "int",
            Lane::Bool => "bool",
            _ => "float",
        };
        let scalars = self.kernel.scalars().iter();
        scalars.map(|scalar| (scalar.name.as_str(), kind(scalar.lane))).collect()
    }

    /// Number by which an op launches its plan on a card.
    fn _number(&self, py: Python<'_>, device: i32) -> Result<i64, Failure> {
        py.detach(|| Ok(self.on(device)?.number))
    }
}

impl CompiledKernel {
    /// Its plan, for any card.
    pub(crate) fn output(&self) -> CompilerOutput {
        (*self.output).clone()
    }

    /// Reasons for faults, by operand.
    pub(super) fn checks(&self) -> Arc<KernelChecks> {
        Arc::clone(&self.checks)
    }

    pub(super) fn kernel_name(&self) -> &str {
        self.kernel.name()
    }

    pub(super) fn scalar_count(&self) -> usize {
        self.kernel.scalars().len()
    }

    /// True for those of its tensors that are written.
    pub(super) fn written(&self) -> Vec<bool> {
        self.kernel.operands().iter().map(|operand| operand.role.is_written()).collect()
    }

    /// Its plan on a card. It is copied there at the first call, and again after a reset.
    pub(super) fn on(&self, device: i32) -> Result<Arc<PreparedPlan>, Failure> {
        let is_found = |plan: &&Arc<PreparedPlan>| plan.device == device && plan.job.is_live();
        if let Some(plan) = self.plans.lock().iter().find(is_found) {
            return Ok(Arc::clone(plan));
        }
        let stream = i64::from(cards::current_stream(device));
        let plan = PreparedPlan::of_output((*self.output).clone(), device, stream)?;
        let mut plans = self.plans.lock();
        let replaced = plans.iter().position(|plan| plan.device == device && !plan.job.is_live());
        let replaced = replaced.map(|at| plans.swap_remove(at));
        plans.push(Arc::clone(&plan));
        drop(plans);
        drop(replaced); // not while the lock is held
        Ok(plan)
    }
}

/// Compiles a kernel, or finds its plan in the process's cache. `operators` and `assertions` are what its faults say
/// of an operand, by the operand's name.
#[pyfunction]
#[pyo3(signature = (text, max_tile=None, operators=HashMap::new(), assertions=HashMap::new()))]
pub(super) fn _compile_kernel(
    py: Python<'_>,
    text: &str,
    max_tile: Option<i64>,
    operators: HashMap<String, String>,
    assertions: HashMap<String, String>,
) -> Result<CompiledKernel, Failure> {
    let no_tile = |_| {
        let given = max_tile.unwrap_or_default();
        let message = format!("max_tile is {given}: give the most elements of a dim, or None");
        Failure::new(SpyreStatus::Value, message)
    };
    let max_tile = max_tile.map(u32::try_from).transpose().map_err(no_tile)?;
    let max_tile = max_tile.map(NonZeroU32::try_from).transpose().map_err(no_tile)?;
    py.detach(|| {
        let kernel: compiler::Kernel = text.parse().map_err(|why| unreadable(text, &why))?;
        let options = cards::settings()?.compile_options();
        let options = CompileOptions { max_tile: max_tile.or(options.max_tile), ..options };
        let refused = |why: PlanError| {
            Failure::new(SpyreStatus::Value, format!("kernel {}: {why}", kernel.name()))
        };
        let output = plan_cache()?.plan(&kernel, &options).map_err(refused)?;
        let checks = match output.steps.len() {
            1 => KernelChecks::new(&kernel, operators, assertions),
            _ => KernelChecks::default(), // the operands of its parts are others
        };
        Ok(CompiledKernel { kernel, output, checks: Arc::new(checks), plans: Mutex::default() })
    })
}

/// Returns true if kernels have a function of values with this name.
#[pyfunction]
pub(super) fn _is_kernel_function(name: &str) -> bool {
    compiler::is_function(name)
}

/// Error in a text, with the line that it is in and a mark below the place.
fn unreadable(text: &str, why: &ParseError) -> Failure {
    let place = why.place;
    let line = text.lines().nth(place.line - 1).unwrap_or_default();
    let mark = " ".repeat(place.column - 1);
    Failure::new(SpyreStatus::Value, format!("{why}\n    {line}\n    {mark}^"))
}
