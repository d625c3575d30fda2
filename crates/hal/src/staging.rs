use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::{DeviceRange, prefetch_to_write};

/// Buffers that are kept for the next copies: past so many in flight, each takes from the heap.
const KEPT: usize = 1024;

/// Small buffers for copies whose bytes are taken at the call, such as the inputs of a program
/// correction. They are used again, so that a warm launch takes nothing from the heap.
#[derive(Debug, Default)]
pub struct StagingPool {
    /// Buffers to stage with.
    idle: Apart<Mutex<Buffers>>,
    /// Buffers of copies that are done. The thread that gives one back seldom meets the one that stages.
    returned: Apart<Mutex<Buffers>>,
}

/// A value on cache lines of its own: buffers are staged and given back on different cores.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

type Buffers = Vec<Box<Staged>>;

/// A copy to the device that has its bytes with it.
pub struct StagedCopy(Option<Box<Staged>>);

#[derive(Debug)]
struct Staged {
    bytes: Vec<u8>,
    target: DeviceRange,
    pool: Weak<StagingPool>,
}

impl StagingPool {
    /// An empty one.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Takes the bytes for a copy.
    pub fn stage(self: &Arc<Self>, bytes: &[u8], target: DeviceRange) -> StagedCopy {
        let mut staged = self.idle().unwrap_or_else(|| {
            Box::new(Staged { bytes: Vec::new(), target, pool: Arc::downgrade(self) })
        });
        staged.bytes.clear();
        staged.bytes.extend_from_slice(bytes);
        staged.target = target;
        StagedCopy(Some(staged))
    }

    fn idle(&self) -> Option<Box<Staged>> {
        let mut idle = self.idle.0.lock();
        if idle.is_empty() {
            std::mem::swap(&mut *idle, &mut *self.returned.0.lock());
        }
        let taken = idle.pop();
        // The core that carried out the next one's last copy has its lines.
        if let Some(next) = idle.last() {
            prefetch_to_write(&**next);
            prefetch_to_write(&next.bytes[..]);
        }
        taken
    }
}

impl StagedCopy {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.staged().bytes
    }

    /// Target range.
    pub fn target(&self) -> DeviceRange {
        self.staged().target
    }

    fn staged(&self) -> &Staged {
        self.0.as_deref().expect("it is there until it is dropped")
    }
}

impl Drop for StagedCopy {
    fn drop(&mut self) {
        let Some(staged) = self.0.take() else { return };
        let Some(pool) = staged.pool.upgrade() else { return };
        let mut returned = pool.returned.0.lock();
        if returned.len() < KEPT {
            returned.push(staged);
        }
    }
}

impl fmt::Debug for StagedCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StagedCopy({} bytes to {})", self.bytes().len(), self.target())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceHandle, HandleTag, VFDeviceHandle};

    #[test]
    fn a_buffer_is_used_again() {
        let tag = HandleTag { epoch: 0, generation: 0, slot: 0 };
        let handle = DeviceHandle::vf(VFDeviceHandle { region_id: 0, vf_offset: 0 }, tag);
        let target = DeviceRange::start_of(handle, 4);
        let pool = StagingPool::new();
        let first = pool.stage(&[1, 2, 3, 4], target).bytes().as_ptr();
        let again = pool.stage(&[5, 6, 7, 8], target);
        assert_eq!(again.bytes(), [5, 6, 7, 8]);
        assert_eq!(again.bytes().as_ptr(), first);
        drop(pool);
        drop(again);
    }
}
