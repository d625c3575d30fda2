use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// Host memory of a caller that waits for the block which uses it, and that may stop waiting.
///
/// Before the block starts, its queue claims the memory; if the caller has recalled it by then, the
/// block is left out.
///
/// ```
/// use spyre_hal::Loan;
///
/// let loan = Loan::default();
/// assert!(loan.recall() && !loan.claim());
///
/// let loan = Loan::default();
/// assert!(loan.claim());
/// loan.end();
/// assert!(!loan.recall()); // it was used, and is no longer
/// ```
#[derive(Debug, Default)]
pub struct Loan {
    state: AtomicU8,
}

const QUEUED: u8 = 0;
const IN_USE: u8 = 1;
const OVER: u8 = 2;
const RECALLED: u8 = 3;

impl Loan {
    /// Begins to use the memory; `false` if it was recalled and must not be touched.
    pub fn claim(&self) -> bool {
        let claimed =
            self.state.compare_exchange(QUEUED, IN_USE, Ordering::AcqRel, Ordering::Acquire);
        claimed != Err(RECALLED)
    }

    /// Ends the use.
    pub fn end(&self) {
        let _ = self.state.compare_exchange(IN_USE, OVER, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Takes the memory back: when it returns, no block uses it. `true` if none ever did.
    pub fn recall(&self) -> bool {
        let recalled =
            self.state.compare_exchange(QUEUED, RECALLED, Ordering::AcqRel, Ordering::Acquire);
        while self.state.load(Ordering::Acquire) == IN_USE {
            std::thread::sleep(Duration::from_micros(100));
        }
        recalled.is_ok()
    }
}
