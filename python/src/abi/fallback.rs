//! Ops that run on the CPU.

use std::ffi::{CStr, c_char};

use super::entry;
use crate::fallbacks;

entry! {
    fn spyre_fallback(op: *const c_char) {
        // SAFETY: the shim gives a text that ends.
        let op = unsafe { CStr::from_ptr(op) }.to_string_lossy();
        fallbacks::note(&op)
    }
}
