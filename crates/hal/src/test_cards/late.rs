use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::random::Random;
use crate::{
    Completions, ControlBlock, DeferredCard, Description, DeviceRange, EngineIndex, Hardware,
    Outcome, PeerMemory, Regions, Started, Token,
};

/// A hardware whose blocks are all done later, on another thread, in a random order of engines.
///
/// The same seed picks the same way among the same blocks; which blocks there are to pick from is
/// up to the threads. Whatever is under way when it is dropped ends with
/// [`Fault::DeviceLost`](crate::Fault::DeviceLost).
///
/// ```
/// use spyre_hal::{Hardware, LateCard, NullCard};
///
/// let card = LateCard::new(NullCard::with_engines(4), 1);
/// assert!(card.description().is_prompt);
/// ```
#[derive(Debug)]
pub struct LateCard<H: Hardware + 'static> {
    deferred: Arc<DeferredCard<H>>,
    threads: Vec<JoinHandle<()>>,
}

impl<H: Hardware + 'static> LateCard<H> {
    /// Starts its thread; one for each engine if the hardware is not prompt, so that a block that
    /// hangs in `start` holds up its own engine only.
    pub fn new(hardware: H, seed: u64) -> Self {
        let deferred = Arc::new(DeferredCard::new(hardware));
        let threads = if deferred.is_inner_prompt() { 1 } else { deferred.description().engines };
        let mut seeds = Random::new(seed);
        let begin = |_| {
            let deferred = deferred.clone();
            let random = Random::new(seeds.number());
            thread::spawn(move || work(&deferred, random))
        };
        let threads = (0..threads).map(begin).collect();
        Self { deferred, threads }
    }

    /// The hardware that carries the blocks out.
    pub fn inner(&self) -> &H {
        self.deferred.inner()
    }
}

/// Gives way now and then before it picks, so that there is more than one block to pick from.
fn work<H: Hardware>(deferred: &DeferredCard<H>, mut random: Random) {
    while deferred.wait_for_work() {
        (0..random.below(4)).for_each(|_| thread::yield_now());
        deferred.finish(random.number() as usize);
    }
}

impl<H: Hardware + 'static> Regions for LateCard<H> {
    crate::forward_regions!(|self| self.deferred);
}

impl<H: Hardware + 'static> Hardware for LateCard<H> {
    fn description(&self) -> Description {
        let inner = self.inner().description();
        Description { name: format!("late {}", inner.name), is_prompt: true, ..inner }
    }

    fn connect(&self, completions: Arc<dyn Completions>) {
        self.deferred.connect(completions);
    }

    fn start(&self, engine: EngineIndex, token: Token, block: ControlBlock) -> Started {
        self.deferred.start(engine, token, block)
    }

    fn abort(&self, engine: EngineIndex, token: Token) {
        self.deferred.abort(engine, token);
    }

    fn reset(&self) {
        self.deferred.reset();
    }

    fn modelled_nanoseconds(&self, engine: EngineIndex) -> u64 {
        self.deferred.modelled_nanoseconds(engine)
    }
}

impl<H: Hardware + 'static> PeerMemory for LateCard<H> {
    fn accept(&self, target: DeviceRange, bytes: &[u8]) -> Outcome {
        self.deferred.accept(target, bytes)
    }
}

impl<H: Hardware + 'static> Drop for LateCard<H> {
    fn drop(&mut self) {
        self.deferred.close();
        // A report may drop the last owner, on one of these threads: that one ends by itself.
        let own = thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != own) {
            // It panicked only if the hardware did; there is no caller here to report it to.
            let _ = thread.join();
        }
    }
}
