//! Code that is compiled once per level of vector instructions, and chosen at run time.
//!
//! All levels give the same bits, as far as their code is the same: each element is computed by the same
//! operations in the same order, and vector instructions round as scalar ones do.
#![allow(unsafe_code, reason = "calls code that was compiled for a detected CPU feature")]

use spyre_numerics::Tier;

/// Partial results of one row: as many as keep vector units busy. The order is fixed, and so is
/// the result.
pub(in crate::programs) const LANES: usize = 16;

/// Something to run. `run` must be `#[inline(always)]`, all the way down: that is what lets the
/// compiler use the instructions of its caller.
pub(in crate::programs) trait Job {
    type Output;

    /// `TIER` is the tier that it is compiled for.
    fn run<const TIER: u8>(self) -> Self::Output;
}

/// Job that runs one function for all tiers.
struct Plain<F>(F);

impl<R, F: FnOnce() -> R> Job for Plain<F> {
    type Output = R;

    #[inline(always)]
    fn run<const TIER: u8>(self) -> R {
        (self.0)()
    }
}

/// Runs a function with the best instructions of this CPU.
#[inline]
pub(in crate::programs) fn vectorised<R>(act: impl FnOnce() -> R) -> R {
    run(Tier::detected(), Plain(act))
}

/// Runs a function with the instructions of a tier that this CPU has.
#[cfg(test)]
pub(in crate::programs) fn at<R>(tier: Tier, act: impl FnOnce() -> R) -> R {
    run(tier, Plain(act))
}

/// Runs a job with the best instructions of this CPU.
#[inline]
pub(in crate::programs) fn run_best<J: Job>(job: J) -> J::Output {
    match Tier::detected() {
        // SAFETY: the CPU has the instructions.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => unsafe { avx2(job) },
        // SAFETY: the CPU has the instructions.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 => unsafe { avx512(job) },
        _ => job.run::<{ Tier::Portable as u8 }>(),
    }
}

/// Runs a job with the instructions of a tier that this CPU has.
#[inline]
pub(in crate::programs) fn run<J: Job>(tier: Tier, job: J) -> J::Output {
    assert!(tier.is_available(), "{tier} is not available on this CPU");
    match tier {
        // SAFETY: the CPU has the instructions.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => unsafe { avx2(job) },
        // SAFETY: the CPU has the instructions.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 => unsafe { avx512(job) },
        _ => job.run::<{ Tier::Portable as u8 }>(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx2<J: Job>(job: J) -> J::Output {
    job.run::<{ Tier::Avx2 as u8 }>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt"
)]
unsafe fn avx512<J: Job>(job: J) -> J::Output {
    job.run::<{ Tier::Avx512 as u8 }>()
}
