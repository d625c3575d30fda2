//! Atomics, locks and threads: the real ones, or those of a model checker.
//!
//! `--features loom` explores every interleaving of small models, `--features shuttle` random
//! schedules of the whole scheduler. Both run the code as it is.

pub(crate) use imp::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, Thread, current,
    fence, park, park_for, spawn, spin_loop, thread_local,
};

/// Number of times that something is done: smaller where a model checker follows every step.
pub(crate) const fn often(usual: u32, in_models: u32) -> u32 {
    if cfg!(any(feature = "loom", feature = "shuttle")) { in_models } else { usual }
}

/// Memory that an atomic beside it hands from one thread to another.
#[derive(Debug, Default)]
pub(crate) struct Cell<T>(imp::UnsafeCell<T>);

impl<T> Cell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::UnsafeCell::new(value))
    }

    /// Calls `access` with a pointer that is valid, and exclusive if the caller sees to it.
    #[inline]
    pub(crate) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        imp::with_mut(&self.0, access)
    }
}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod imp {
    pub(crate) use std::cell::UnsafeCell;
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub(crate) use std::thread::{Thread, current, park};
    pub(crate) use std::thread_local;

    pub(crate) use parking_lot::{Mutex, MutexGuard};

    pub(crate) fn park_for(nanoseconds: u64) {
        std::thread::park_timeout(std::time::Duration::from_nanos(nanoseconds));
    }

    #[inline]
    pub(crate) fn with_mut<T, R>(cell: &UnsafeCell<T>, access: impl FnOnce(*mut T) -> R) -> R {
        access(cell.get())
    }

    pub(crate) fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        std::thread::Builder::new().name(name).spawn(body).map(drop)
    }
}

#[cfg(feature = "loom")]
mod imp {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::thread_local;
    use std::sync::Arc;

    pub(crate) use loom::sync::MutexGuard;
    use loom::sync::Notify;
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub(crate) use loom::thread::yield_now as spin_loop;

    /// Loom's own `unpark` also wakes a thread that waits for a lock, which that cannot bear. This
    /// one does not, and its `park` ends once for no reason at all, as it may.
    #[derive(Clone, Debug)]
    pub(crate) struct Thread(Arc<Notify>);

    loom::thread_local! {
        static OWN: Thread = Thread(Arc::default());
    }

    impl Thread {
        pub(crate) fn unpark(&self) {
            self.0.notify();
        }
    }

    pub(crate) fn current() -> Thread {
        OWN.with(Thread::clone)
    }

    pub(crate) fn park() {
        current().0.wait();
    }

    /// Models have no clock.
    pub(crate) fn park_for(_: u64) {
        park();
    }

    pub(crate) fn with_mut<T, R>(cell: &UnsafeCell<T>, access: impl FnOnce(*mut T) -> R) -> R {
        cell.with_mut(access)
    }

    pub(crate) fn spawn(_: String, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        drop(loom::thread::spawn(body));
        Ok(())
    }

    super::poison_free_mutex!(loom::sync::Mutex);
}

#[cfg(all(feature = "shuttle", not(feature = "loom")))]
mod imp {
    pub(crate) use std::cell::UnsafeCell;

    pub(crate) use shuttle::sync::MutexGuard;
    pub(crate) use shuttle::sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub(crate) use shuttle::thread::{Thread, current, park, yield_now as spin_loop};
    pub(crate) use shuttle::thread_local;

    /// Models have no clock.
    pub(crate) fn park_for(_: u64) {
        park();
    }

    pub(crate) fn with_mut<T, R>(cell: &UnsafeCell<T>, access: impl FnOnce(*mut T) -> R) -> R {
        access(cell.get())
    }

    pub(crate) fn spawn(_: String, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        drop(shuttle::thread::spawn(body));
        Ok(())
    }

    super::poison_free_mutex!(shuttle::sync::Mutex);
}

/// A mutex with `parking_lot`'s face.
#[cfg(any(feature = "loom", feature = "shuttle"))]
macro_rules! poison_free_mutex {
    ($($mutex:ident)::+) => {
        #[derive(Debug)]
        pub(crate) struct Mutex<T>($($mutex)::+<T>);

        impl<T: Default> Default for Mutex<T> {
            fn default() -> Self {
                Self::new(T::default())
            }
        }

        impl<T> Mutex<T> {
            pub(crate) fn new(value: T) -> Self {
                Self($($mutex)::+::new(value))
            }

            pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
                self.0.lock().expect("no thread panics with a lock")
            }
        }
    };
}
#[cfg(any(feature = "loom", feature = "shuttle"))]
use poison_free_mutex;
