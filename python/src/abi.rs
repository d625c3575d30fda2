//! The C functions that the shim calls: `csrc/spyre.h` declares them.
//!
//! Each is made by the macro [`entry`]: it catches panics, refuses forked children, and turns an error
//! into a status whose message the calling thread can ask for.
#![allow(unsafe_code, reason = "pointers of a framework that is written in C++")]
#![allow(clippy::missing_safety_doc, reason = "the header says what they take")]

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
mod recordings;
mod view;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use devices::{set_warns_of_downcasts, warns_of_downcasts};
pub(crate) use launches::device_tensor;
pub(crate) use memory::{memory_info, shared};
pub(crate) use view::{RawView, bytes_of, dtype_of};

use crate::cards;
use crate::failure::{Failure, last_message};

/// Defines functions of the C boundary, whose bodies are `Result<(), Failure>`.
macro_rules! entry {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $body:block)*) => {$(
        $(#[$about])*
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($argument: $kind),*) -> i32 {
            $crate::abi::guarded(|| -> Result<(), $crate::failure::Failure> { $body })
        }
    )*};
}
pub(crate) use entry;

/// Calls a body: nothing that goes wrong in it gets past this.
#[inline]
pub(crate) fn guarded(body: impl FnOnce() -> Result<(), Failure>) -> i32 {
    let checked = || cards::check_process().and_then(|()| body());
    match catch_unwind(AssertUnwindSafe(checked)) {
        Ok(Ok(())) => 0,
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

/// Message of the calling thread's last failure.
#[unsafe(no_mangle)]
extern "C" fn spyre_message() -> *const std::ffi::c_char {
    last_message()
}
