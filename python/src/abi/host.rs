//! Host memory that copies read and write in place.

use std::ffi::c_void;

use super::entry;
use crate::pinned;

entry! {
    fn spyre_host_allocate(bytes: i64, data: *mut *mut c_void) {
        let block = pinned::allocate(bytes as usize)?;
        // SAFETY: the shim gives the address of a pointer.
        unsafe { *data = block as *mut c_void };
        Ok(())
    }
}

#[unsafe(no_mangle)]
extern "C" fn spyre_host_free(data: *mut c_void) {
    pinned::free(data as usize);
}

#[unsafe(no_mangle)]
extern "C" fn spyre_is_pinned(data: *const c_void) -> i32 {
    i32::from(pinned::block_at(data as usize).is_some())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn spyre_host_stats(
    current_bytes: *mut i64,
    peak_bytes: *mut i64,
    blocks: *mut i64,
    total: *mut i64,
) {
    let counts = pinned::counts();
    // SAFETY: the shim gives the addresses of four numbers.
    unsafe {
        *current_bytes = counts.bytes as i64;
        *peak_bytes = counts.peak_bytes as i64;
        *blocks = counts.blocks as i64;
        *total = counts.total as i64;
    }
}

#[unsafe(no_mangle)]
extern "C" fn spyre_host_reset_stats(peak_only: i32) {
    pinned::reset_counts(peak_only != 0);
}
