//! Cache lines that go from core to core: one takes some 50 ns, and who waits for it does nothing else.
#![allow(unsafe_code, reason = "a hint to the processor")]

/// Bytes of a cache line.
const LINE: usize = 64;

/// Has the cache lines of something brought here that is written soon, and that another core has.
#[inline]
pub fn prefetch_to_write<T: ?Sized>(soon: &T) {
    let first = std::ptr::from_ref(soon).cast::<u8>();
    for at in (0..size_of_val(soon)).step_by(LINE) {
        prefetch(first.wrapping_add(at));
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn prefetch(line: *const u8) {
    // SAFETY: a hint; it reads and writes nothing, wherever it points.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
fn prefetch(_: *const u8) {}
