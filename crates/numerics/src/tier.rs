//! Which vector instructions a kernel is compiled for, and the choice among them at run time.
#![allow(unsafe_code, reason = "calling code that was compiled for a detected CPU feature")]

use std::fmt;
use std::sync::OnceLock;

/// A level of vector instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Tier {
    /// What every CPU of this architecture has.
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
    pub fn detected() -> Self {
        static DETECTED: OnceLock<Tier> = OnceLock::new();
        *DETECTED.get_or_init(detect)
    }

    /// Whether this CPU has it.
    pub fn is_available(self) -> bool {
        self <= Self::detected()
    }

    /// `K` compiled for this tier.
    pub(crate) fn compile<K: Kernel>(self) -> Compiled {
        assert!(self.is_available(), "{self} is not available on this CPU");
        Compiled(match self {
            Self::Portable => portable::<K>,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::<K>,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => avx512::<K>,
            #[cfg(not(target_arch = "x86_64"))]
            _ => portable::<K>,
        })
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
    /// Converts as many elements as both slices hold; `TIER` is the tier it is compiled for.
    fn run<const TIER: u8>(source: &[u8], target: &mut [u8]);
}

/// A [`Kernel`] that was compiled for a tier of this CPU.
#[derive(Clone, Copy)]
pub(crate) struct Compiled(unsafe fn(&[u8], &mut [u8]));

impl Compiled {
    /// Runs the kernel.
    #[inline]
    pub(crate) fn run(self, source: &[u8], target: &mut [u8]) {
        // SAFETY: `Tier::compile` is the only maker, and it checked the CPU.
        unsafe { (self.0)(source, target) }
    }
}

fn portable<K: Kernel>(source: &[u8], target: &mut [u8]) {
    K::run::<{ Tier::Portable as u8 }>(source, target);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
fn avx2<K: Kernel>(source: &[u8], target: &mut [u8]) {
    K::run::<{ Tier::Avx2 as u8 }>(source, target);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt"
)]
fn avx512<K: Kernel>(source: &[u8], target: &mut [u8]) {
    K::run::<{ Tier::Avx512 as u8 }>(source, target);
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
