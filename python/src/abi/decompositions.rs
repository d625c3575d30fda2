//! Ops that are carried out as others.

use super::{SpyreText, guarded};
use crate::decompositions;
use crate::failure::SpyreStatus;

/// Tells if an op is decomposed: then a kernel for it is registered at the key of decompositions. What the CPU has
/// no kernel for always is, whatever `EAGER_MODE` says.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_has_decomposition(
    op: SpyreText,
    has_cpu: bool,
    has: &mut bool,
) -> SpyreStatus {
    guarded(|| {
        *has = decompositions::has(&op.to_str(), has_cpu)?;
        Ok(())
    })
}
