//! Tiers of vector instructions that a kernel is compiled for, and the choice among them at run time.
#![allow(unsafe_code, reason = "calling code that was compiled for a detected CPU feature")]

use std::fmt;
use std::sync::OnceLock;

/// A level of vector instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Tier {
    /// Instructions that every CPU of this architecture has.
    Portable,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 with BW, CD, DQ and VL.
    Avx512,
}

impl Tier {
    /// Every tier, lowest first.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// The highest tier that this CPU has.
    #[inline]
    pub fn detected() -> Self {
        static DETECTED: OnceLock<Tier> = OnceLock::new();
        *DETECTED.get_or_init(detect)
    }

    /// Returns true if this CPU has it.
    #[inline]
    pub fn is_available(self) -> bool {
        self <= Self::detected()
    }

    /// `K` compiled for this tier.
    pub(crate) fn compile<K: Kernel>(self) -> Compiled {
        Compiled { plain: self.entry::<K, false>(), streaming: None }
    }

    /// `K` compiled for this tier, and once more with stores that go past the cache.
    pub(crate) fn compile_streaming<K: Kernel>(self) -> Compiled {
        Compiled { streaming: Some(self.entry::<K, true>()), ..self.compile::<K>() }
    }

    fn entry<K: Kernel, const STREAM: bool>(self) -> Entry {
        assert!(self.is_available(), "{self} is not available on this CPU");
        match self {
            Self::Portable => portable::<K, STREAM>,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::<K, STREAM>,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => avx512::<K, STREAM>,
            #[cfg(not(target_arch = "x86_64"))]
            _ => portable::<K, STREAM>,
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Portable => "portable code",
            Self::Avx2 => "AVX2",
            Self::Avx512 => "AVX-512",
        })
    }
}

/// A loop over elements that is compiled once per tier.
///
/// `run` must be `#[inline(always)]`, all the way down: that is what lets the compiler vectorise
/// it with the instructions of its caller.
pub(crate) trait Kernel {
    /// Bytes of an element before and after.
    const BYTES: (usize, usize);

    /// Converts as many elements as both slices hold; `TIER` is the tier it is compiled for, and
    /// `STREAM` asks for stores past the cache, to a target that is aligned to [`LINE`].
    fn run<const TIER: u8, const STREAM: bool>(source: &[u8], target: &mut [u8]);
}

/// A cache line: what streamed stores must fill.
pub(crate) const LINE: usize = 64;

/// Rows of elements at both ends.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// Number of rows.
    pub count: usize,
    /// Elements of a row.
    pub elements: usize,
    /// Bytes from the start of a row to the start of the next, at the source.
    pub source_stride: usize,
    /// Bytes from the start of a row to the start of the next, at the target.
    pub target_stride: usize,
}

impl Rows {
    /// One row.
    pub(crate) fn one(elements: usize) -> Self {
        Self { count: 1, elements, source_stride: 0, target_stride: 0 }
    }

    /// Calls `f` with each row at both ends.
    ///
    /// # Safety
    /// Both ends hold the rows, whose elements have these `bytes`.
    #[inline(always)]
    pub(crate) unsafe fn each(
        &self,
        source: *const u8,
        target: *mut u8,
        bytes: (usize, usize),
        mut f: impl FnMut(&[u8], &mut [u8]),
    ) {
        for row in 0..self.count {
            // SAFETY: as the caller promises.
            let (source, target) = unsafe {
                let source = source.add(row * self.source_stride);
                let target = target.add(row * self.target_stride);
                (
                    std::slice::from_raw_parts(source, self.elements * bytes.0),
                    std::slice::from_raw_parts_mut(target, self.elements * bytes.1),
                )
            };
            f(source, target);
        }
    }
}

type Entry = unsafe fn(*const u8, *mut u8, Rows);

/// A [`Kernel`] that was compiled for a tier of this CPU.
#[derive(Clone, Copy)]
pub(crate) struct Compiled {
    plain: Entry,
    streaming: Option<Entry>,
}

impl Compiled {
    /// Converts rows.
    ///
    /// # Safety
    /// Both ends hold the rows.
    #[inline]
    pub(crate) unsafe fn run(self, source: *const u8, target: *mut u8, rows: Rows) {
        // SAFETY: `Tier::compile` is the only maker, and it checked the CPU.
        unsafe { (self.plain)(source, target, rows) }
    }

    /// Returns true if it can store past the cache.
    #[inline]
    pub(crate) fn streams(self) -> bool {
        self.streaming.is_some()
    }

    /// Converts rows and stores them past the cache, if it can.
    ///
    /// # Safety
    /// Both ends hold the rows; the target, its stride and its rows are multiples of [`LINE`].
    #[inline]
    pub(crate) unsafe fn stream(self, source: *const u8, target: *mut u8, rows: Rows) {
        // SAFETY: as the caller promises; `Tier::compile` checked the CPU.
        unsafe { (self.streaming.unwrap_or(self.plain))(source, target, rows) }
    }
}

/// The rows of a kernel; those of one stick of 16-bit elements or half of it, the usual ones, with a length
/// that the compiler knows.
///
/// # Safety
/// Both ends hold the rows.
#[inline(always)]
unsafe fn run_rows<K: Kernel, const TIER: u8, const STREAM: bool>(
    source: *const u8,
    target: *mut u8,
    rows: Rows,
) {
    const STICK: usize = 64;
    const HALF: usize = STICK / 2;
    // SAFETY: as the caller promises.
    unsafe {
        if rows.elements == STICK {
            let rows = Rows { elements: STICK, ..rows };
            rows.each(source, target, K::BYTES, |from, to| K::run::<TIER, STREAM>(from, to));
        } else if rows.elements == HALF {
            let rows = Rows { elements: HALF, ..rows };
            rows.each(source, target, K::BYTES, |from, to| K::run::<TIER, STREAM>(from, to));
        } else {
            rows.each(source, target, K::BYTES, |from, to| K::run::<TIER, STREAM>(from, to));
        }
    }
}

unsafe fn portable<K: Kernel, const STREAM: bool>(source: *const u8, target: *mut u8, rows: Rows) {
    // SAFETY: as the caller promises.
    unsafe { run_rows::<K, { Tier::Portable as u8 }, STREAM>(source, target, rows) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx2<K: Kernel, const STREAM: bool>(source: *const u8, target: *mut u8, rows: Rows) {
    // SAFETY: as the caller promises.
    unsafe { run_rows::<K, { Tier::Avx2 as u8 }, STREAM>(source, target, rows) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt"
)]
unsafe fn avx512<K: Kernel, const STREAM: bool>(source: *const u8, target: *mut u8, rows: Rows) {
    // SAFETY: as the caller promises.
    unsafe { run_rows::<K, { Tier::Avx512 as u8 }, STREAM>(source, target, rows) }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Tier {
    macro_rules! has {
        ($($feature:tt)*) => { $(std::arch::is_x86_feature_detected!($feature))&&* };
    }
    if !has!("avx2" "fma" "f16c" "bmi1" "bmi2" "lzcnt" "popcnt") {
        Tier::Portable
    } else if !has!("avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl") {
        Tier::Avx2
    } else {
        Tier::Avx512
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Tier {
    Tier::Portable
}
