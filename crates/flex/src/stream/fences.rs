//! A fence in two halves, for a question that is asked often and a change that is rare.
//!
//! A thread that brings work writes it, has a [`light`] fence, and looks whether a thread sleeps. A
//! thread that goes to sleep says so, has a [`heavy`] one, and looks for work. One of the two sees
//! the other, as with two full fences. But the light one only holds the compiler back: the heavy
//! one has the kernel interrupt every other thread of the process (`membarrier`). Where it cannot,
//! both are full fences.

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub(crate) use kernel::{heavy, light, prepare};
#[cfg(any(feature = "loom", feature = "shuttle"))]
pub(crate) use model::{heavy, light, prepare};

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
#[allow(unsafe_code, reason = "a system call that the standard library does not have")]
mod kernel {
    use std::sync::Once;
    use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

    static IS_ASYMMETRIC: AtomicBool = AtomicBool::new(false);
    static PREPARED: Once = Once::new();

    /// Asks the kernel whether it does its part. Comes before any of the two fences.
    pub(crate) fn prepare() {
        PREPARED.call_once(|| {
            let is_registered = ask(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
            let works = is_registered && ask(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
            IS_ASYMMETRIC.store(works, Ordering::SeqCst);
        });
    }

    /// The half of the thread that is in a hurry.
    #[inline]
    pub(crate) fn light() {
        if IS_ASYMMETRIC.load(Ordering::Relaxed) {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// The half of the thread that has time.
    pub(crate) fn heavy() {
        fence(Ordering::SeqCst);
        if IS_ASYMMETRIC.load(Ordering::Relaxed) {
            let is_done = ask(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
            assert!(is_done, "membarrier worked before: {}", std::io::Error::last_os_error());
        }
    }

    fn ask(command: libc::c_int) -> bool {
        // SAFETY: it takes numbers only, and orders memory.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }
}

/// The checkers know full fences.
#[cfg(any(feature = "loom", feature = "shuttle"))]
mod model {
    use crate::sync::{Ordering, fence};

    pub(crate) fn prepare() {}

    pub(crate) fn light() {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn heavy() {
        fence(Ordering::SeqCst);
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::stream::fences::{heavy, light, prepare};

    const ROUNDS: usize = 20_000;

    #[test]
    fn one_of_two_threads_sees_the_other() {
        prepare();
        let rounds: Vec<[AtomicBool; 2]> = (0..ROUNDS).map(|_| Default::default()).collect();
        let start = Barrier::new(2);
        // Each writes its own flag and, after its half of the fence, reads the other's.
        let look = |own: usize, half: fn()| -> Vec<bool> {
            start.wait();
            let look = |flags: &[AtomicBool; 2]| {
                flags[own].store(true, Ordering::Relaxed);
                half();
                flags[1 - own].load(Ordering::Relaxed)
            };
            rounds.iter().map(look).collect()
        };
        let (hurried, patient) = std::thread::scope(|scope| {
            let hurried = scope.spawn(|| look(0, light));
            let patient = look(1, heavy);
            (hurried.join().expect("no panic"), patient)
        });
        let missed = hurried.iter().zip(&patient).position(|(a, b)| !a && !b);
        assert_eq!(missed, None, "neither saw the other");
    }
}
