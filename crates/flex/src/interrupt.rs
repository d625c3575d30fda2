//! Waits of the host that a signal ends.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Reason why a wait ends before what it waits for.
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

/// Time between two checks while a thread waits.
pub(crate) const INTERVAL_NANOSECONDS: u64 = 30_000_000;

/// Has every wait of the process ask `check`, some 30 times a second, whether to go on. The first
/// check that is set stays.
///
/// It may use the runtime itself. Who waits with locks held keeps it from being asked by
/// [`hold_interrupts`].
pub fn set_interrupt_check(check: InterruptCheck) {
    CHECK.get_or_init(|| check);
}

/// Returns true if waits can be interrupted.
#[inline]
pub(crate) fn is_checked() -> bool {
    CHECK.get().is_some()
}

pub(crate) fn check() -> Option<Interruption> {
    if HOLDS.get() > 0 {
        return None;
    }
    CHECK.get().and_then(|check| check())
}

thread_local! {
    static HOLDS: Cell<u32> = const { Cell::new(0) };
}

/// Guard: while there is one, no wait of its thread is interrupted.
#[derive(Debug)]
pub struct HeldInterrupts(PhantomData<*const ()>);

/// Has the calling thread's waits go on whatever signals come, for as long as it holds locks that a
/// signal's handler may need.
#[must_use]
pub fn hold_interrupts() -> HeldInterrupts {
    HOLDS.set(HOLDS.get() + 1);
    HeldInterrupts(PhantomData)
}

impl Drop for HeldInterrupts {
    fn drop(&mut self) {
        HOLDS.set(HOLDS.get() - 1);
    }
}
