use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::GraphMemory;

/// The capture of a stream, if there is one. What it has noted is of a type that the layer above knows.
#[derive(Debug, Default)]
pub(crate) struct CaptureSlot {
    is_on: AtomicBool,
    noted: Mutex<Option<Box<dyn Any + Send>>>,
    /// Apart, as memory is allocated while a launch is noted.
    memory: Mutex<Option<Arc<GraphMemory>>>,
}

impl CaptureSlot {
    /// Begins a capture; `false` if there is one.
    pub(crate) fn begin(&self, empty: Box<dyn Any + Send>, memory: &Arc<GraphMemory>) -> bool {
        let mut noted = self.noted.lock();
        if noted.is_some() {
            return false;
        }
        *noted = Some(empty);
        *self.memory.lock() = Some(Arc::clone(memory));
        self.is_on.store(true, Ordering::Release);
        true
    }

    /// Ends the capture: all that was noted, and its memory.
    pub(crate) fn end(&self) -> Option<(Box<dyn Any + Send>, Arc<GraphMemory>)> {
        let noted = self.noted.lock().take()?;
        self.is_on.store(false, Ordering::Release);
        Some((noted, self.memory.lock().take()?))
    }

    /// Returns true between the begin and the end of a capture.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// All that was noted so far.
    pub(crate) fn noted(&self) -> MutexGuard<'_, Option<Box<dyn Any + Send>>> {
        self.noted.lock()
    }

    /// The memory that a capture allocates from.
    #[inline]
    pub(crate) fn memory(&self) -> Option<Arc<GraphMemory>> {
        if self.is_on() { self.memory.lock().clone() } else { None }
    }
}
