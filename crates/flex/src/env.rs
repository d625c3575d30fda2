use std::fmt::Debug;
use std::time::Instant;

use crate::sync;

/// Source of time and threads: all that differs between a real run and a simulated one.
pub trait Env: Debug + Send + Sync {
    /// Nanoseconds since some start. Never goes back.
    fn now(&self) -> u64;

    /// Starts a thread; `false` if there are none to be had, and the caller does its work itself.
    fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> bool;

    /// Waits until the thread is woken, or for no reason at all.
    fn park(&self);

    /// Waits until the thread is woken, or for so long, or for no reason at all. Where there is no
    /// clock to wake it, it waits until it is woken.
    fn park_for(&self, _nanoseconds: u64) {
        self.park();
    }
}

/// The machine's clock and threads.
#[derive(Debug)]
pub struct Machine {
    start: Instant,
}

impl Default for Machine {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Env for Machine {
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> bool {
        sync::spawn(name, body).is_ok()
    }

    fn park(&self) {
        sync::park();
    }

    fn park_for(&self, nanoseconds: u64) {
        sync::park_for(nanoseconds);
    }
}
