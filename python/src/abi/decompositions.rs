//! Ops that are carried out as others.

use std::ffi::{CStr, c_char};

use super::entry;
use crate::decompositions;

entry! {
    /// Tells if an op has a decomposition.
    fn spyre_has_decomposition(op: *const c_char, has: *mut i32) {
        // SAFETY: the shim gives a text that ends.
        let op = unsafe { CStr::from_ptr(op) }.to_string_lossy();
        let found = decompositions::has(&op)?;
        // SAFETY: the shim gives room for a number.
        unsafe { *has = i32::from(found) };
        Ok(())
    }
}
