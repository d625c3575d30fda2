use std::any::Any;
use std::sync::Arc;

use spyre_hal::{DeviceRange, Fault, Hardware, Outcome, PeerMemory};

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

    fn check(&self, target: DeviceRange) -> Outcome {
        let DeviceRange { handle, offset, bytes } = target;
        let checked = self.allocator.check(handle, offset, bytes);
        checked.map_err(|_| Fault::IllegalAccess { range: target })
    }
}

impl PeerMemory for Peer {
    fn accept(&self, target: DeviceRange, bytes: &[u8]) -> Outcome {
        self.check(target)?;
        self.hardware.accept(target, bytes)?;
        self.allocator.heal(&target);
        Ok(())
    }

    fn window(&self, target: DeviceRange) -> Result<Option<Box<dyn Any + Send>>, Fault> {
        self.check(target)?;
        let window = self.hardware.window(target)?;
        if window.is_some() {
            self.allocator.heal(&target);
        }
        Ok(window)
    }
}
