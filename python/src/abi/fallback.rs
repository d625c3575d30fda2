//! Ops that run on the CPU.

use super::{SpyreText, guarded};
use crate::failure::SpyreStatus;
use crate::fallbacks;

/// Counts a fallback, and warns of it or refuses it.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_fallback(op: SpyreText) -> SpyreStatus {
    guarded(|| fallbacks::note(&op.to_str()))
}
