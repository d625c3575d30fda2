use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use spyre_flex::{self as flex, BLOCK_BYTES, Context, FlexStream, hold_interrupts};
use spyre_hal::DeviceHandle;

/// Memory of graphs: what is allocated during a capture, and used again within it once it is freed.
///
/// Graphs that are captured with the same memory share it, and so must not be replayed at the same time. It is given back
/// when the last graph and the last tensor in it are gone.
#[derive(Debug)]
pub struct GraphMemory {
    context: Context,
    /// Handles by their bytes.
    free: Mutex<BTreeMap<u64, Vec<DeviceHandle>>>,
}

impl GraphMemory {
    /// None so far.
    pub fn new(context: &Context) -> Arc<Self> {
        Arc::new(Self { context: context.clone(), free: Mutex::default() })
    }

    /// Returns true if it is memory of this card.
    pub(crate) fn is_on(&self, context: &Context) -> bool {
        std::ptr::eq(self.context.allocator(), context.allocator())
    }

    /// Memory of so many bytes, for a capture on `stream`.
    pub(crate) fn allocate(
        &self,
        stream: &FlexStream,
        bytes: u64,
    ) -> Result<DeviceHandle, flex::Error> {
        let bytes = whole_blocks(bytes);
        let _held = hold_interrupts();
        while let Some(handle) = self.free.lock().get_mut(&bytes).and_then(Vec::pop) {
            // A reset of the card has taken those from before it away.
            if self.context.allocator().check(handle, 0, bytes).is_ok() {
                return Ok(handle);
            }
        }
        stream.allocate(bytes)
    }

    /// Takes memory back that no tensor uses any more, but graphs may.
    pub(crate) fn take_back(&self, handle: DeviceHandle, bytes: u64) {
        let _held = hold_interrupts();
        self.free.lock().entry(whole_blocks(bytes)).or_default().push(handle);
    }
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        for handle in std::mem::take(self.free.get_mut()).into_values().flatten() {
            // After a reset of the card it is gone already.
            let _ = self.context.free(handle);
        }
    }
}

fn whole_blocks(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(BLOCK_BYTES)
}
