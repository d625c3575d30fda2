use std::sync::Arc;

use spyre_hal::{
    Completions, ControlBlock, Description, DeviceRange, EngineIndex, Fault, Hardware, Outcome,
    Regions, Started, Token,
};

use crate::FlexAllocator;

/// Another card, as a copy to it sees it: it accepts bytes for what is live there when they come,
/// which need not be what was live when the copy was queued.
#[derive(Debug)]
pub(crate) struct Peer {
    hardware: Arc<dyn Hardware>,
    allocator: Arc<FlexAllocator>,
}

impl Peer {
    pub(crate) fn new(hardware: Arc<dyn Hardware>, allocator: Arc<FlexAllocator>) -> Self {
        Self { hardware, allocator }
    }
}

impl Regions for Peer {
    spyre_hal::forward_regions!(|self| self.hardware);
}

impl Hardware for Peer {
    fn description(&self) -> Description {
        self.hardware.description()
    }

    fn connect(&self, completions: Arc<dyn Completions>) {
        self.hardware.connect(completions);
    }

    fn start(&self, engine: EngineIndex, token: Token, block: ControlBlock) -> Started {
        self.hardware.start(engine, token, block)
    }

    fn abort(&self, engine: EngineIndex, token: Token) {
        self.hardware.abort(engine, token);
    }

    fn reset(&self) {
        self.hardware.reset();
    }

    fn modelled_nanoseconds(&self, engine: EngineIndex) -> u64 {
        self.hardware.modelled_nanoseconds(engine)
    }

    fn accept(&self, target: DeviceRange, bytes: &[u8]) -> Outcome {
        let DeviceRange { handle, offset, bytes: length } = target;
        match self.allocator.check(handle, offset, length) {
            Ok(()) => {
                self.hardware.accept(target, bytes)?;
                self.allocator.heal(&target);
                Ok(())
            }
            Err(_) => Err(Fault::IllegalAccess { range: target }),
        }
    }
}
