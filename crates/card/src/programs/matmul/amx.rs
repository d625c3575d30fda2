//! Products in the tile registers of a CPU that has them (AMX): sums of float32, factors of bfloat16.
//!
//! Factors that are subnormal count as zero there, and sums are rounded to nearest whatever the mode is.
#![allow(unsafe_code, reason = "instructions on tiles of memory")]

use crate::programs::matmul::product::PANEL;

/// TileRows that are multiplied at once, at most: two tiles.
pub(in crate::programs) const ROWS: usize = 32;
/// Terms of a step: two tiles of pairs.
pub(in crate::programs) const TERMS: usize = 64;
/// Numbers in a row of a tile of sums, and pairs of factors in one of factors.
const SIDE: usize = 16;
/// Bytes of a row of a tile.
const ROW_BYTES: usize = 64;
/// Bytes of a step of a panel, as [`pairs`](super::pairs) makes it: four tiles.
pub(in crate::programs) const STEP_BYTES: usize = TERMS * PANEL * 2;

/// TileRows of bfloat16: in a step, they follow each other.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct TileRows {
    pub(in crate::programs) first: *const u8,
    /// Bytes from a row to the next one.
    pub(in crate::programs) row_bytes: usize,
    /// Bytes from a step to the next one.
    pub(in crate::programs) step_bytes: usize,
}

/// TileSums of a whole panel, `row_bytes` from row to row.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct TileSums {
    pub(in crate::programs) first: *mut f32,
    pub(in crate::programs) row_bytes: usize,
}

/// Returns true if the CPU has the instructions and the system lets this process use them.
pub(in crate::programs) fn is_available() -> bool {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        static IS_AVAILABLE: std::sync::LazyLock<bool> = std::sync::LazyLock::new(x86::ask);
        *IS_AVAILABLE
    }
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    false
}

/// Tile registers that are set up for so many rows. A thread has one at a time.
#[derive(Debug)]
pub(in crate::programs) struct Tiles {
    rows: usize,
}

impl Tiles {
    /// Sets them up for up to [`ROWS`] rows.
    ///
    /// # Panics
    /// If there are none.
    pub(in crate::programs) fn for_rows(rows: usize) -> Self {
        assert!(is_available() && (1..=ROWS).contains(&rows), "tiles for {rows} rows");
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        x86::configure(rows);
        Self { rows }
    }

    /// Adds the products of two halves of its rows and two of a panel, each with each: tiles of sums are loaded and
    /// stored once for all.
    ///
    /// # Safety
    /// The pointers lead to so many steps of rows and of panels, and to sums. The rows' steps follow each other.
    pub(in crate::programs) unsafe fn add_halves(
        &self,
        a: [TileRows; 2],
        b: [*const u8; 2],
        steps: usize,
        sums: TileSums,
    ) {
        debug_assert!(a.iter().all(|rows| rows.step_bytes == TERMS * 2), "rows that were split");
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if self.rows > SIDE {
            // SAFETY: as the caller promises; the tiles are set up for so many rows.
            unsafe { x86::add_pair_of_halves(a, b, steps, sums) };
            return;
        }
        for (a, b) in a.into_iter().flat_map(|a| b.map(|b| (a, b))) {
            // SAFETY: as the caller promises.
            unsafe { self.add(a, b, steps, sums) };
        }
    }

    /// Adds the product of its rows and a panel of pairs.
    ///
    /// # Safety
    /// The pointers lead to so many steps of rows and of a panel, and to sums.
    pub(in crate::programs) unsafe fn add(
        &self,
        a: TileRows,
        b: *const u8,
        steps: usize,
        sums: TileSums,
    ) {
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        // SAFETY: as the caller promises; the tiles are set up for so many rows.
        unsafe {
            match self.rows {
                0..=SIDE => x86::add_single(a, b, steps, sums),
                _ => x86::add_pair(a, b, steps, sums),
            }
        }
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        let _ = (a, b, steps, sums, self.rows);
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        x86::release();
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::__cpuid_count;

    use spyre_numerics::Tier;

    use super::{ROW_BYTES, SIDE, STEP_BYTES, TERMS, TileRows, TileSums};

    /// Bits of EDX in leaf 7 of CPUID: bfloat16 in tiles, and tiles.
    const FEATURES: u32 = 1 << 22 | 1 << 24;
    /// `ARCH_REQ_XCOMP_PERM` of `arch_prctl`, and the state of tiles.
    const REQUEST: libc::c_long = 0x1023;
    const TILE_DATA: libc::c_long = 18;

    /// Asks the system for tile registers, for all threads of this process.
    pub(super) fn ask() -> bool {
        let has_leaf = __cpuid_count(0, 0).eax >= 7;
        let has_tiles = has_leaf && __cpuid_count(7, 0).edx & FEATURES == FEATURES;
        if !has_tiles || !Tier::Avx512.is_available() {
            return false;
        }
        // SAFETY: it grants a feature, or fails.
        unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST, TILE_DATA) == 0 }
    }

    /// Configuration of all tiles, as `ldtilecfg` reads it.
    #[repr(C, align(64))]
    struct Configuration {
        palette: u8,
        start_row: u8,
        reserved: [u8; 14],
        row_bytes: [u16; 16],
        rows: [u8; 16],
    }

    pub(super) fn configure(rows: usize) {
        let [upper, lower] = [rows.min(SIDE), rows.saturating_sub(SIDE).max(1)].map(|it| it as u8);
        let side = SIDE as u8;
        let mut counts = [0; 16];
        counts[..8].copy_from_slice(&[upper, upper, lower, lower, upper, lower, side, side]);
        let mut row_bytes = [0; 16];
        row_bytes[..8].fill(ROW_BYTES as u16);
        let configuration =
            Configuration { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows: counts };
        // SAFETY: the CPU has tiles, and the configuration is one of theirs.
        unsafe {
            asm!(
                "ldtilecfg [{}]", in(reg) &raw const configuration,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, preserves_flags),
            );
        }
    }

    pub(super) fn release() {
        // SAFETY: the CPU has tiles.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) }
    }

    /// # Safety
    /// As `Tiles::add`, with tiles for more than one tile's rows.
    pub(super) unsafe fn add_pair(a: TileRows, b: *const u8, steps: usize, sums: TileSums) {
        // SAFETY: as the caller promises.
        unsafe {
            asm!(
                "tileloadd tmm0, [{c} + {cs}]",
                "tileloadd tmm1, [{c} + {cs} + 64]",
                "tileloadd tmm2, [{d} + {cs}]",
                "tileloadd tmm3, [{d} + {cs} + 64]",
                "2:",
                "tileloadd tmm4, [{a} + {row}]",
                "tileloadd tmm6, [{b} + {line}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{b} + {line} + 1024]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{e} + {row}]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "tileloadd tmm4, [{a} + {row} + 64]",
                "tileloadd tmm6, [{b} + {line} + 2048]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{b} + {line} + 3072]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{e} + {row} + 64]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, {step}",
                "add {e}, {step}",
                "add {b}, {panel_step}",
                "dec {n}",
                "jnz 2b",
                "tilestored [{c} + {cs}], tmm0",
                "tilestored [{c} + {cs} + 64], tmm1",
                "tilestored [{d} + {cs}], tmm2",
                "tilestored [{d} + {cs} + 64], tmm3",
                c = in(reg) sums.first,
                d = in(reg) sums.first.byte_add(SIDE * sums.row_bytes),
                cs = in(reg) sums.row_bytes,
                a = inout(reg) a.first => _,
                e = inout(reg) a.first.add(SIDE * a.row_bytes) => _,
                row = in(reg) a.row_bytes,
                step = in(reg) a.step_bytes,
                b = inout(reg) b => _,
                line = in(reg) ROW_BYTES,
                panel_step = const STEP_BYTES,
                n = inout(reg) steps => _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }

    /// # Safety
    /// As `Tiles::add_halves`, with tiles for more than one tile's rows.
    pub(super) unsafe fn add_pair_of_halves(
        a: [TileRows; 2],
        b: [*const u8; 2],
        steps: usize,
        sums: TileSums,
    ) {
        let [high, low] = a;
        // SAFETY: as the caller promises.
        unsafe {
            asm!(
                "tileloadd tmm0, [{c} + {cs}]",
                "tileloadd tmm1, [{c} + {cs} + 64]",
                "tileloadd tmm2, [{d} + {cs}]",
                "tileloadd tmm3, [{d} + {cs} + 64]",
                "2:",
                "tileloadd tmm4, [{a} + {row}]",
                "tileloadd tmm6, [{b} + {line}]",
                "tileloadd tmm7, [{b} + {line} + 1024]",
                "tileloadd tmm5, [{e} + {row}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "tileloadd tmm6, [{f} + {line}]",
                "tileloadd tmm7, [{f} + {line} + 1024]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "tileloadd tmm4, [{g} + {row}]",
                "tileloadd tmm5, [{h} + {row}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "tileloadd tmm6, [{b} + {line}]",
                "tileloadd tmm7, [{b} + {line} + 1024]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "tileloadd tmm4, [{a} + {row} + 64]",
                "tileloadd tmm6, [{b} + {line} + 2048]",
                "tileloadd tmm7, [{b} + {line} + 3072]",
                "tileloadd tmm5, [{e} + {row} + 64]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "tileloadd tmm6, [{f} + {line} + 2048]",
                "tileloadd tmm7, [{f} + {line} + 3072]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "tileloadd tmm4, [{g} + {row} + 64]",
                "tileloadd tmm5, [{h} + {row} + 64]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "tileloadd tmm6, [{b} + {line} + 2048]",
                "tileloadd tmm7, [{b} + {line} + 3072]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, 128",
                "add {e}, 128",
                "add {g}, 128",
                "add {h}, 128",
                "add {b}, {panel_step}",
                "add {f}, {panel_step}",
                "dec {n}",
                "jnz 2b",
                "tilestored [{c} + {cs}], tmm0",
                "tilestored [{c} + {cs} + 64], tmm1",
                "tilestored [{d} + {cs}], tmm2",
                "tilestored [{d} + {cs} + 64], tmm3",
                c = in(reg) sums.first,
                d = in(reg) sums.first.byte_add(SIDE * sums.row_bytes),
                cs = in(reg) sums.row_bytes,
                a = inout(reg) high.first => _,
                e = inout(reg) high.first.add(SIDE * high.row_bytes) => _,
                g = inout(reg) low.first => _,
                h = inout(reg) low.first.add(SIDE * low.row_bytes) => _,
                row = in(reg) high.row_bytes,
                b = inout(reg) b[0] => _,
                f = inout(reg) b[1] => _,
                line = in(reg) ROW_BYTES,
                panel_step = const STEP_BYTES,
                n = inout(reg) steps => _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }

    /// # Safety
    /// As `Tiles::add`, with tiles for one tile's rows.
    pub(super) unsafe fn add_single(a: TileRows, b: *const u8, steps: usize, sums: TileSums) {
        const { assert!(TERMS == 2 * ROW_BYTES / 2, "a step is two rows of tiles") };
        // SAFETY: as the caller promises.
        unsafe {
            asm!(
                "tileloadd tmm0, [{c} + {cs}]",
                "tileloadd tmm1, [{c} + {cs} + 64]",
                "2:",
                "tileloadd tmm4, [{a} + {row}]",
                "tileloadd tmm6, [{b} + {line}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{b} + {line} + 1024]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm4, [{a} + {row} + 64]",
                "tileloadd tmm6, [{b} + {line} + 2048]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{b} + {line} + 3072]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "add {a}, {step}",
                "add {b}, {panel_step}",
                "dec {n}",
                "jnz 2b",
                "tilestored [{c} + {cs}], tmm0",
                "tilestored [{c} + {cs} + 64], tmm1",
                c = in(reg) sums.first,
                cs = in(reg) sums.row_bytes,
                a = inout(reg) a.first => _,
                row = in(reg) a.row_bytes,
                step = in(reg) a.step_bytes,
                b = inout(reg) b => _,
                line = in(reg) ROW_BYTES,
                panel_step = const STEP_BYTES,
                n = inout(reg) steps => _,
                out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}
