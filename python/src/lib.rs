//! The extension module `torch_spyre._C`: PyTorch's device "spyre" on the open Spyre stack.
//!
//! Above the facade [`spyre`]. PyTorch asks for C++ classes; they are a thin shim in `csrc/` that
//! adapts types and calls the C functions in [`abi`]. What Python calls directly is registered here.
//!
#![doc = include_str!("../DESIGN.md")]
#![expect(non_snake_case, reason = "Python's name for an extension module")]
#![allow(unreachable_pub, reason = "cbindgen writes down what is public; no crate uses this one")]

mod abi;
mod call_cache;
mod cards;
mod collectives;
mod decompositions;
mod exit;
mod exit_signal;
mod failure;
mod fallbacks;
mod handover;
mod history;
mod interrupts;
mod kernels;
mod keywords;
mod layouts;
mod logging;
mod native;
mod operators;
mod pinned_memory;
mod plan_cache;
mod recording;
mod runtime;
mod statistics;
mod surface;
mod traceback;
mod traffic;
mod variables;

use pyo3::prelude::*;

/// The extension module that Python imports.
#[pymodule]
#[pyo3(name = "_C")]
fn extension(names: &Bound<'_, PyModule>) -> PyResult<()> {
    names.add("__version__", env!("CARGO_PKG_VERSION"))?;
    exit::register(names)?;
    exit_signal::register(names)?;
    collectives::register(names)?;
    fallbacks::register(names)?;
    keywords::register(names)?;
    layouts::register(names)?;
    logging::register(names)?;
    kernels::register(names)?;
    native::register(names)?;
    operators::register(names)?;
    plan_cache::register(names)?;
    traffic::register(names)?;
    recording::register(names)?;
    runtime::register(names)?;
    surface::register(names)
}
