use std::collections::HashMap;

use spyre::compiler;
use spyre::hal::Fault;

use crate::failure::SpyreStatus;

/// Operators whose indices, if out of range, are a RuntimeError on the CPU and on CUDA.
const RUNTIME_ERRORS: [&str; 5] =
    ["aten.gather", "aten.scatter", "aten.scatter_add", "aten.scatter_reduce", "aten.index_add"];

/// Reasons for which a compiled graph's kernel may find an index out of range, by operand.
#[derive(Debug, Default)]
pub(crate) struct KernelChecks {
    /// Names of the operators whose indices go into an operand.
    operators: HashMap<u8, String>,
    /// Texts of assertions: the operand has no such element if one is not true.
    assertions: HashMap<u8, String>,
}

impl KernelChecks {
    /// The checks of a kernel; both tables are by the names of operands.
    pub(super) fn new(
        kernel: &compiler::Kernel,
        operators: HashMap<String, String>,
        assertions: HashMap<String, String>,
    ) -> Self {
        let by_place = |by_name: HashMap<String, String>| {
            let place_of = |name: &str| kernel.operands().iter().position(|of| of.name == name);
            let placed =
                by_name.into_iter().filter_map(|(name, text)| Some((place_of(&name)?, text)));
            placed.filter_map(|(place, text)| Some((u8::try_from(place).ok()?, text))).collect()
        };
        Self { operators: by_place(operators), assertions: by_place(assertions) }
    }

    /// Kind and message of a fault that a check found; `message` has the fault's own text in it.
    pub(super) fn explain(&self, fault: &Fault, message: &str) -> Option<(SpyreStatus, String)> {
        let Fault::IndexOutOfRange { operand, .. } = fault else { return None };
        if let Some(text) = self.assertions.get(operand) {
            let asserted = message.replace(&fault.to_string(), text);
            return Some((SpyreStatus::Runtime, asserted));
        }
        let operators = self.operators.get(operand).filter(|names| !names.is_empty())?;
        let is_runtime = operators.split(" or ").all(|name| RUNTIME_ERRORS.contains(&name));
        let kind = if is_runtime { SpyreStatus::Runtime } else { SpyreStatus::Index };
        Some((kind, format!("{message}; in {operators}")))
    }
}
