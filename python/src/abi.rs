//! The C functions that the shim calls; `tools/abi-header` writes their header, `csrc/spyre_abi.h`.
//!
//! # Contract
//! The shim is compiled against that header and is part of the same library, so Rust takes what it passes for what
//! the types say:
//! 1. Every reference points to a value that lives until the call returns; one that may be missing is an `Option`.
//! 2. Values of the types whose fields are private ([`SpyreView`], [`SpyreText`], [`LayoutPointer`], ...) are made by
//!    the shim alone, and what they point to lives until the call returns, too. Their methods are therefore safe.
//! 3. A `Box` is given up by one side and owned by the other from then on.
//!
//! Each function that can fail has [`guarded`] around its body: it catches panics, refuses forked children, and turns
//! an error into a status whose message the calling thread can ask for.
#![allow(unsafe_code, reason = "names that the linker sees")]

mod copies;
mod decompositions;
mod devices;
mod events;
mod fallback;
mod host;
mod launches;
mod layouts;
mod memory;
mod native;
mod operators;
mod recordings;
mod text;
mod view;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use devices::{set_warns_of_downcasts, warns_of_downcasts};
pub(crate) use fallback::{register_fallback, register_kinds};
pub(crate) use launches::{device_tensor, tensor_as_seen};
pub(crate) use layouts::{for_tensor, with_stick_dims};
pub(crate) use memory::{NewMemory, memory_info};
pub(crate) use native::SpyreResult;
pub(crate) use text::SpyreText;
pub(crate) use view::{SpyreView, bytes_of, dtype_of};

use crate::cards;
use crate::failure::{Failure, SpyreStatus, last_message};

/// Calls a body: nothing that goes wrong in it gets past this.
#[inline]
pub(crate) fn guarded(body: impl FnOnce() -> Result<(), Failure>) -> SpyreStatus {
    let checked = || cards::check_process().and_then(|()| body());
    match catch_unwind(AssertUnwindSafe(checked)) {
        Ok(Ok(())) => SpyreStatus::Ok,
        Ok(Err(failure)) => failure.note(),
        Err(panic) => panicked(&*panic).note(),
    }
}

#[cold]
fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    Failure::runtime(format!("spyre: internal error, please report it: {text}"))
}

/// Message of the calling thread's last failure. Valid until its next failure.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_message() -> *const std::ffi::c_char {
    last_message()
}
