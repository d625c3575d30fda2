use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use crate::devices::{HostMemory, memory_limit_bytes};
use crate::{Environment, Error};

/// Limit on the bytes that all cards of a process commit together.
///
/// Device memory of software cards is memory of the host: a card that took more than there is would
/// have the process killed. Past the budget a request is refused instead.
///
/// ```
/// use spyre_flex::Budget;
///
/// let budget = Budget::new(1000);
/// assert!(budget.try_commit(600));
/// assert!(!budget.try_commit(600)); // refused as a whole
/// budget.release(600);
/// assert_eq!(budget.committed_bytes(), 0);
/// ```
#[derive(Debug)]
pub struct Budget {
    limit_bytes: u64,
    committed_bytes: AtomicU64,
    sharers: Mutex<Vec<Weak<dyn Sharer>>>,
}

/// Owner of bytes that it could do without.
pub(crate) trait Sharer: Debug + Send + Sync {
    /// Releases memory that is not in use. Called with no lock held.
    fn give_back(&self);
}

impl Budget {
    /// A budget of its own.
    pub const fn new(limit_bytes: u64) -> Self {
        let sharers = Mutex::new(Vec::new());
        Self { limit_bytes, committed_bytes: AtomicU64::new(0), sharers }
    }

    /// The one that all cards of this process share. `SPYRE_MEMORY_LIMIT` is read at first use; a
    /// bad value is an error now and is read anew by the next call.
    pub fn of_process() -> Result<Arc<Self>, Error> {
        static SHARED: OnceLock<Arc<Budget>> = OnceLock::new();
        if let Some(shared) = SHARED.get() {
            return Ok(shared.clone());
        }
        let limit_bytes = memory_limit_bytes(&Environment::of_process(), &HostMemory::default())?;
        Ok(SHARED.get_or_init(|| Arc::new(Self::new(limit_bytes))).clone())
    }

    /// Takes so many bytes, or none and says `false`.
    #[must_use]
    pub fn try_commit(&self, bytes: u64) -> bool {
        let more = |committed: u64| {
            committed.checked_add(bytes).filter(|&committed| committed <= self.limit_bytes)
        };
        // The number guards nothing but itself, so its order among other accesses is free.
        self.committed_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Gives back bytes that were taken.
    pub fn release(&self, bytes: u64) {
        let committed = self.committed_bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(committed >= bytes, "{bytes} released of {committed} bytes");
    }

    /// Taken now.
    pub fn committed_bytes(&self) -> u64 {
        self.committed_bytes.load(Ordering::Relaxed)
    }

    /// The most that can be taken at a time.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Adds `sharer`: from now on it is asked for what it does not need.
    pub(crate) fn join(&self, sharer: Weak<dyn Sharer>) {
        let mut sharers = self.sharers.lock();
        sharers.retain(|sharer| sharer.strong_count() > 0);
        sharers.push(sharer);
    }

    /// Asks the sharers for what they do not need, until so many bytes can be taken.
    ///
    /// One lock at a time: the list is copied before the first is asked.
    pub(crate) fn reclaim(&self, bytes: u64) {
        let has_room = || self.limit_bytes.saturating_sub(self.committed_bytes()) >= bytes;
        let sharers: Vec<_> = self.sharers.lock().iter().filter_map(Weak::upgrade).collect();
        for sharer in sharers.iter().take_while(|_| !has_room()) {
            sharer.give_back();
        }
    }
}
