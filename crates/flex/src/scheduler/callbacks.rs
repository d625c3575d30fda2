//! Functions of the host, run in their turn on a thread of their own: one that takes long keeps no
//! engine from its work.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use spyre_hal::{Fault, HostCallback, Outcome};

use super::Scheduler;
use super::drive::wake;
use crate::sync;

sync::thread_local! {
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's are made when they are used")]
    static IS_IN_CALLBACK: Cell<bool> = Cell::new(false);
}

/// Returns true if this thread is running a callback, so that it may not wait for blocks.
pub(crate) fn is_in_callback() -> bool {
    IS_IN_CALLBACK.with(Cell::get)
}

impl Scheduler {
    /// Wakes the callback thread to run the callbacks that wait. Starts it first, if need be.
    #[cold]
    pub(super) fn call_for_callbacks(&self) {
        if self.has_callback_thread() {
            self.callbacks.ring();
        }
    }

    fn has_callback_thread(&self) -> bool {
        let known = self.has_callback_thread.get().copied();
        known.unwrap_or_else(|| {
            // A lock that models know of: who starts the thread may be interrupted.
            let _starting = self.starting_callbacks.lock();
            *self.has_callback_thread.get_or_init(|| self.start_callback_thread())
        })
    }

    fn start_callback_thread(&self) -> bool {
        let Some(scheduler) = self.me.upgrade() else { return false };
        let body = Box::new(move || {
            while !scheduler.is_at_its_end() {
                scheduler.run_callbacks();
                scheduler.callbacks.sleep(0, &*scheduler.env, || {
                    scheduler.core.lock().has_callback() || scheduler.is_at_its_end()
                });
            }
        });
        self.env.spawn("spyre callbacks".to_owned(), body)
    }

    /// Runs callbacks until none waits.
    pub(super) fn run_callbacks(&self) {
        loop {
            let picked = self.core.lock().pick_callback();
            let Some((_, callback)) = picked else { return };
            let outcome = call(callback);
            let mut core = self.core.lock();
            core.finish_callback(outcome);
            let wakes = core.take_wakes();
            drop(core);
            wake(wakes);
            self.go_on();
            self.end_lingering();
        }
    }
}

fn call(callback: HostCallback) -> Outcome {
    let outer = IS_IN_CALLBACK.with(|is_in| is_in.replace(true));
    let result = catch_unwind(AssertUnwindSafe(|| callback.call()));
    IS_IN_CALLBACK.with(|is_in| is_in.set(outer));
    let message = match result {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(message)) => message,
        Err(panic) => format!("it panicked: {}", message(&*panic)),
    };
    Err(Fault::CallbackFailed { message: message.into() })
}

/// Message of a panic.
pub(super) fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
