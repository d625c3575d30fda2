use std::sync::Arc;

use crate::{
    Completions, ControlBlock, Description, DeviceRange, EngineIndex, Hardware, Outcome,
    PeerMemory, Regions, Started, Token, VirtualRegions,
};

/// A card that completes every block at once and remembers nothing.
///
/// It holds no bytes: what is copied from it is not written. It is there to time the runtime alone,
/// and to run programs of the host without their numbers.
#[derive(Debug)]
pub struct NullCard {
    regions: VirtualRegions,
    engines: u16,
}

impl NullCard {
    /// Regions of the documents' card: 8 of 12 GB; and one engine.
    pub fn new() -> Self {
        Self::with_engines(1)
    }

    /// Like [`new`](Self::new), with this many engines.
    pub fn with_engines(engines: u16) -> Self {
        Self { regions: VirtualRegions::new(8, 12 << 30), engines: engines.max(1) }
    }
}

impl Default for NullCard {
    fn default() -> Self {
        Self::new()
    }
}

impl Regions for NullCard {
    crate::forward_regions!(|self| self.regions);
}

impl Hardware for NullCard {
    fn description(&self) -> Description {
        Description { name: "null".to_owned(), engines: self.engines, is_prompt: true }
    }

    fn connect(&self, _: Arc<dyn Completions>) {}

    #[inline]
    fn start(&self, _: EngineIndex, _: Token, block: ControlBlock) -> Started {
        drop(block);
        Started::Done(Ok(()))
    }

    fn abort(&self, _: EngineIndex, _: Token) {}

    fn reset(&self) {
        self.regions.release_all();
    }
}

impl PeerMemory for NullCard {
    fn accept(&self, _: DeviceRange, _: &[u8]) -> Outcome {
        Ok(())
    }
}
