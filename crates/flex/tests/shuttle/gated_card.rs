use std::sync::Arc;

use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread::yield_now;
use spyre_hal::{
    Completions, ControlBlock, Description, DeviceRange, EngineIndex, Hardware, NullCard, Outcome,
    PeerMemory, Regions, Started, Token,
};

/// A card of two engines whose first block stays in `start` until the gate is opened, though it is
/// asked to end.
#[derive(Debug)]
pub(crate) struct GatedCard {
    card: NullCard,
    has_started: AtomicBool,
    is_open: AtomicBool,
}

impl GatedCard {
    pub(crate) fn new() -> Self {
        let card = NullCard::with_engines(2);
        Self { card, has_started: AtomicBool::new(false), is_open: AtomicBool::new(false) }
    }

    /// Waits until a block hangs.
    pub(crate) fn wait_for_start(&self) {
        while !self.has_started.load(Ordering::SeqCst) {
            yield_now();
        }
    }

    pub(crate) fn open(&self) {
        self.is_open.store(true, Ordering::SeqCst);
    }
}

impl Regions for GatedCard {
    spyre_hal::forward_regions!(|self| self.card);
}

impl Hardware for GatedCard {
    fn description(&self) -> Description {
        Description { is_prompt: false, ..self.card.description() }
    }

    fn connect(&self, completions: Arc<dyn Completions>) {
        self.card.connect(completions);
    }

    fn start(&self, engine: EngineIndex, token: Token, block: ControlBlock) -> Started {
        if !self.has_started.swap(true, Ordering::SeqCst) {
            while !self.is_open.load(Ordering::SeqCst) {
                yield_now();
            }
        }
        self.card.start(engine, token, block)
    }

    fn abort(&self, engine: EngineIndex, token: Token) {
        self.card.abort(engine, token);
    }

    fn reset(&self) {
        self.card.reset();
    }
}

impl PeerMemory for GatedCard {
    fn accept(&self, target: DeviceRange, bytes: &[u8]) -> Outcome {
        self.card.accept(target, bytes)
    }
}
