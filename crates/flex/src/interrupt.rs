//! Waits of the host that a signal ends.

use std::sync::OnceLock;

/// Why a wait ends before what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// The user wants the program to stop. A second one cancels what is queued.
    Keyboard,
    /// A handler of another signal ended the wait.
    Handler,
}

/// Asks whether the calling thread is to stop waiting.
pub type InterruptCheck = fn() -> Option<Interruption>;

static CHECK: OnceLock<InterruptCheck> = OnceLock::new();

/// How often it is asked while a thread waits.
pub(crate) const INTERVAL_NANOSECONDS: u64 = 30_000_000;

/// Has every wait of the process ask `check`, some 30 times a second, whether to go on. The first
/// check that is set stays.
///
/// It may be called with locks of the runtime held: it must not wait for a thread that calls the
/// runtime.
pub fn set_interrupt_check(check: InterruptCheck) {
    CHECK.get_or_init(|| check);
}

/// Whether waits can be interrupted.
#[inline]
pub(crate) fn is_checked() -> bool {
    CHECK.get().is_some()
}

pub(crate) fn check() -> Option<Interruption> {
    CHECK.get().and_then(|check| check())
}
