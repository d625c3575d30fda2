//! The peer of the launch path: a bare ring, one producer, one consumer, nothing checked.
#![allow(unsafe_code, reason = "slots change hands by a counter")]

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, park};

const SLOTS: u64 = 256;

/// A block of 64 bytes.
pub(crate) type Block = [u64; 8];

/// A ring of 64-byte blocks with a completion counter, and a consumer that takes them one by one.
pub(crate) struct BareRing {
    shared: Arc<Shared>,
    pushed: u64,
    known_done: u64,
    consumer: Option<JoinHandle<()>>,
}

#[repr(align(128))]
struct Padded<T>(T);

struct Shared {
    slots: Box<[Slot]>,
    tail: Padded<AtomicU64>,
    done: Padded<AtomicU64>,
    is_live: Padded<AtomicBool>,
    is_over: AtomicBool,
}

#[repr(align(64))]
struct Slot(UnsafeCell<Block>);

// SAFETY: a slot is written before the tail passes it, and read before the done counter does.
unsafe impl Sync for Slot {}

impl BareRing {
    pub(crate) fn new() -> Self {
        let shared = Arc::new(Shared {
            slots: (0..SLOTS).map(|_| Slot(UnsafeCell::new([0; 8]))).collect(),
            tail: Padded(AtomicU64::new(0)),
            done: Padded(AtomicU64::new(0)),
            is_live: Padded(AtomicBool::new(false)),
            is_over: AtomicBool::new(false),
        });
        let consumed = Arc::clone(&shared);
        let consumer = Some(std::thread::spawn(move || consumed.consume()));
        Self { shared, pushed: 0, known_done: 0, consumer }
    }

    /// Runs with a consumer that spins; it sleeps otherwise, since cores are few.
    pub(crate) fn live<R>(&mut self, run: impl FnOnce(&mut Self) -> R) -> R {
        self.shared.is_live.0.store(true, Ordering::SeqCst);
        self.consumer.as_ref().expect("a consumer").thread().unpark();
        self.push([1; 8]);
        self.finish();
        let result = run(self);
        self.finish();
        self.shared.is_live.0.store(false, Ordering::SeqCst);
        result
    }

    #[inline]
    pub(crate) fn push(&mut self, block: Block) {
        while self.pushed - self.known_done >= SLOTS {
            self.known_done = self.shared.done.0.load(Ordering::Acquire);
            spin_loop();
        }
        let slot = &self.shared.slots[(self.pushed % SLOTS) as usize];
        // SAFETY: the consumer is done with the slot, and does not look at it before the tail moves.
        unsafe { *slot.0.get() = block };
        self.pushed += 1;
        self.shared.tail.0.store(self.pushed, Ordering::Release);
    }

    /// Waits until everything was taken.
    #[inline]
    pub(crate) fn finish(&mut self) {
        while self.shared.done.0.load(Ordering::Acquire) < self.pushed {
            spin_loop();
        }
    }
}

impl Shared {
    fn consume(&self) {
        let mut next = 0;
        let mut sum = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            while !self.is_live.0.load(Ordering::Acquire) && !self.is_over.load(Ordering::Relaxed) {
                park();
            }
            while next < self.tail.0.load(Ordering::Acquire) {
                // SAFETY: the tail has passed the slot.
                let block = unsafe { *self.slots[(next % SLOTS) as usize].0.get() };
                sum += block.iter().sum::<u64>() & 1;
                next += 1;
                self.done.0.store(next, Ordering::Release);
            }
            spin_loop();
        }
        std::hint::black_box(sum);
    }
}

impl Drop for BareRing {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(consumer) = self.consumer.take() {
            consumer.thread().unpark();
            drop(consumer.join());
        }
    }
}
