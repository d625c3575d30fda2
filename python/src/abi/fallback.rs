//! Ops that run on the CPU.

use std::ffi::{CString, c_char};

use super::{SpyreText, guarded};
use crate::failure::{Failure, SpyreStatus};
use crate::fallbacks;

unsafe extern "C" {
    fn spyre_register_fallback(namespace: *const c_char, op: *const c_char) -> bool;
    fn spyre_register_kinds();
}

/// Counts a fallback, and warns of it or refuses it.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_fallback(op: SpyreText) -> SpyreStatus {
    guarded(|| fallbacks::note(&op.to_str()))
}

/// Has the shim take the calls of sparse and nested tensors that have no kernel, from now on.
pub(crate) fn register_kinds() {
    // SAFETY: it takes nothing, and throws nothing.
    unsafe { spyre_register_kinds() };
}

/// Has the shim carry an op out on the CPU, in place of the device's kernels.
pub(crate) fn register_fallback(namespace: &str, op: &str) -> Result<(), Failure> {
    let [space, name] = [namespace, op].map(CString::new);
    let (Ok(space), Ok(name)) = (space, name) else {
        return Err(Failure::runtime(format!("there is no operation {namespace}::{op}")));
    };
    // SAFETY: both are texts that end.
    if unsafe { spyre_register_fallback(space.as_ptr(), name.as_ptr()) } {
        Ok(())
    } else {
        Err(Failure::runtime(format!("no fallback can be registered for {namespace}::{op}")))
    }
}
