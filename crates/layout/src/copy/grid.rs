use spyre_numerics::{STICK_BYTES, Tier};

/// Sticks in columns and rows, each at a stride of its own at both ends.
#[derive(Clone, Copy, Debug)]
pub struct StickGrid {
    /// How many columns and rows there are.
    pub counts: [usize; 2],
    /// Bytes from a column to the next one and from a row to the next one, at the source.
    pub source_strides: [usize; 2],
    /// The same at the target.
    pub target_strides: [usize; 2],
}

/// Copies sticks, column by column: without a call in between, so that the memory is asked for the
/// next ones while it still brings the last.
///
/// # Safety
/// Both ends hold the sticks, and do not overlap.
pub unsafe fn copy_stick_grid(source: *const u8, target: *mut u8, grid: StickGrid) {
    // SAFETY: as the caller promises; the tier was detected.
    unsafe {
        match Tier::detected() {
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 => copy_512(source, target, grid),
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 => copy_256(source, target, grid),
            _ => copy(source, target, grid),
        }
    }
}

/// # Safety
/// As [`copy_stick_grid`], on a CPU with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn copy_512(source: *const u8, target: *mut u8, grid: StickGrid) {
    // SAFETY: as the caller promises.
    unsafe { copy(source, target, grid) }
}

/// # Safety
/// As [`copy_stick_grid`], on a CPU with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn copy_256(source: *const u8, target: *mut u8, grid: StickGrid) {
    // SAFETY: as the caller promises.
    unsafe { copy(source, target, grid) }
}

/// # Safety
/// As [`copy_stick_grid`].
#[inline(always)]
unsafe fn copy(source: *const u8, target: *mut u8, grid: StickGrid) {
    let StickGrid { counts: [columns, rows], source_strides, target_strides } = grid;
    for column in 0..columns {
        for row in 0..rows {
            // SAFETY: as the caller promises.
            unsafe {
                let from = source.add(column * source_strides[0] + row * source_strides[1]);
                let to = target.add(column * target_strides[0] + row * target_strides[1]);
                let (from, to) = (from.cast::<[u8; STICK_BYTES]>(), to.cast());
                std::ptr::copy_nonoverlapping(from, to, 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stick_arrives_and_no_other_byte_changes() {
        let grid = StickGrid {
            counts: [3, 5],
            source_strides: [8 * STICK_BYTES, STICK_BYTES],
            target_strides: [STICK_BYTES, 4 * STICK_BYTES],
        };
        let source: Vec<u8> = (0..24 * STICK_BYTES).map(|at| (at % 251) as u8).collect();
        let mut target = vec![0xfe; 20 * STICK_BYTES];
        // SAFETY: both hold the sticks.
        unsafe { copy_stick_grid(source.as_ptr(), target.as_mut_ptr(), grid) };
        for (at, stick) in target.chunks(STICK_BYTES).enumerate() {
            let (row, column) = (at / 4, at % 4);
            let expected = match column < 3 {
                true => &source[(column * 8 + row) * STICK_BYTES..][..STICK_BYTES],
                false => &[0xfe; STICK_BYTES],
            };
            assert_eq!(stick, expected, "stick {at}");
        }
    }
}
