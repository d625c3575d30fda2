//! Atomics, locks and threads: the real ones, or those of a model checker.
//!
//! `--features loom` explores every interleaving of small models, `--features shuttle` random
//! schedules of the whole scheduler. Both run the code as it is.

pub(crate) use imp::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Mutex, Ordering, Thread, current, fence, park,
    spawn, spin_loop,
};

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

    pub(crate) use parking_lot::Mutex;

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
    use loom::sync::MutexGuard;
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub(crate) use loom::thread::{Thread, current, park, yield_now as spin_loop};

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

    use shuttle::sync::MutexGuard;
    pub(crate) use shuttle::sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub(crate) use shuttle::thread::{Thread, current, park, yield_now as spin_loop};

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
