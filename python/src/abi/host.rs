//! Host memory that copies read and write in place.

use std::ffi::c_void;

use super::entry;
use crate::pinned;
use crate::statistics::Stat;

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
unsafe extern "C" fn spyre_host_stats(bytes: *mut Stat, blocks: *mut Stat) {
    let counts = pinned::counts();
    // SAFETY: the shim gives the addresses of two `SpyreStat`s.
    unsafe {
        *bytes = counts.bytes;
        *blocks = counts.blocks;
    }
}

#[unsafe(no_mangle)]
extern "C" fn spyre_host_reset_stats(is_of_peaks: i32) {
    if is_of_peaks != 0 { pinned::reset_peaks() } else { pinned::reset_totals() }
}
