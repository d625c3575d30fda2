//! Host memory that copies read and write in place.

use std::ffi::c_void;

use super::guarded;
use crate::failure::SpyreStatus;
use crate::pinned_memory;
use crate::statistics::SpyreStat;

/// Allocates a block.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_host_allocate(bytes: i64, data: &mut *mut c_void) -> SpyreStatus {
    guarded(|| {
        *data = pinned_memory::allocate(bytes as usize)? as *mut c_void;
        Ok(())
    })
}

/// Gives a block back.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_host_free(data: *mut c_void) {
    pinned_memory::free(data as usize);
}

/// Returns true if an address lies in a block.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_is_pinned(data: *const c_void) -> bool {
    pinned_memory::block_at(data as usize).is_some()
}

/// Counts of bytes and of blocks.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_host_stats(bytes: &mut SpyreStat, blocks: &mut SpyreStat) {
    let counts = pinned_memory::counts();
    *bytes = counts.bytes;
    *blocks = counts.blocks;
}

/// Begins to count peaks anew, or totals.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_host_reset_stats(is_of_peaks: bool) {
    if is_of_peaks { pinned_memory::reset_peaks() } else { pinned_memory::reset_totals() }
}
