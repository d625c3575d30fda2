use spyre_numerics::{Rows, STICK_BYTES, Tier};

use super::stream;

/// Rows that are copied side by side, so that the memory reads ahead in each of them.
const ROWS: usize = 8;
const ROW_BYTES: usize = 8192;

/// Copies bytes as they are with stores that go past the cache: for results of [`STREAM_BYTES`] and
/// more, which would not stay in it. When it returns, they are ordered before all that follows.
///
/// [`STREAM_BYTES`]: crate::STREAM_BYTES
///
/// # Safety
/// So many bytes can be read at the source and written at the target; the two do not overlap.
pub unsafe fn copy_past_cache(source: *const u8, target: *mut u8, bytes: usize) {
    let tier = Tier::detected();
    let head = target.align_offset(stream::LINE).min(bytes);
    let blocks = (bytes - head) / (ROWS * ROW_BYTES) * (ROWS * ROW_BYTES);
    let rest = head + blocks;
    // SAFETY: head, blocks and rest make up the bytes that the caller promises.
    unsafe {
        std::ptr::copy_nonoverlapping(source, target, head);
        for at in (head..rest).step_by(ROWS * ROW_BYTES) {
            copy_block(tier, source.add(at), target.add(at));
        }
        stream::copy_unaligned(tier, source.add(rest), target.add(rest), bytes - rest);
    }
    stream::fence();
}

/// Copies rows of `bytes` each with stores that go past the cache; a [`store_fence`] orders them
/// before what follows.
///
/// # Safety
/// Both ends hold the rows and do not overlap; the target, its stride and the bytes of a row are
/// multiples of 64.
pub unsafe fn copy_rows_past_cache(source: *const u8, target: *mut u8, rows: Rows, bytes: usize) {
    // SAFETY: as the caller promises.
    unsafe { stream::copy_rows(Tier::detected(), source, target, rows, bytes) }
}

/// Orders what this thread has stored past the cache before all that follows.
pub fn store_fence() {
    stream::fence();
}

/// # Safety
/// Both ends hold a block of all rows; the target starts at a cache line.
unsafe fn copy_block(tier: Tier, source: *const u8, target: *mut u8) {
    let rows = Rows {
        count: ROWS,
        elements: STICK_BYTES,
        source_stride: ROW_BYTES,
        target_stride: ROW_BYTES,
    };
    for column in (0..ROW_BYTES).step_by(STICK_BYTES) {
        // SAFETY: the column lies inside the block, and starts at a line.
        unsafe {
            stream::copy_rows(tier, source.add(column), target.add(column), rows, STICK_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives_and_no_other_changes() {
        let source: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
        for (from, to, bytes) in
            [(0, 0, 0), (0, 1, 1), (3, 5, 63), (1, 64, 65_536), (7, 3, 131_072), (2, 9, 200_001)]
        {
            let mut target = vec![0xee; 200_100];
            // SAFETY: both are long enough.
            unsafe {
                copy_past_cache(source.as_ptr().add(from), target.as_mut_ptr().add(to), bytes);
            }
            assert_eq!(target[to..][..bytes], source[from..][..bytes], "{bytes} bytes");
            let around = target[..to].iter().chain(&target[to + bytes..]);
            assert!(around.into_iter().all(|&byte| byte == 0xee), "around {bytes} bytes");
        }
    }
}
