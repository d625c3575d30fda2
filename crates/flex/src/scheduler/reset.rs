//! Losing a device, and getting it back.

use std::sync::Arc;

use spyre_hal::{BlockKind, Fault, Label, StreamIndex, StreamPoint};

use super::Scheduler;
use super::callbacks::is_in_callback;
use super::drive::wake;
use crate::core::Core;
use crate::sync::spin_loop;
use crate::{Error, StreamFault};

impl Scheduler {
    /// Lets a stream go on after a structural fault. What was queued on it is cancelled.
    pub(crate) fn reset_stream(&self, stream: StreamIndex) -> Result<(), Error> {
        self.check_process()?;
        let lane = self.lane(stream)?;
        tracing::debug!(target: "spyre.runtime", "stream {} is reset", stream.0);
        let result = self.allocator.settle(lane, || self.core.lock().reset_stream(stream));
        self.go_on();
        result.map_err(Error::Stream)
    }

    /// Starts the device anew: everything queued or running is cancelled, all memory is gone, and
    /// handles from before are refused.
    pub(crate) fn reset(&self) -> Result<(), Error> {
        self.check_process()?;
        if is_in_callback() {
            return Err(Error::InsideCallback { stream: StreamIndex(0) });
        }
        let _resetting = self.resetting.lock();
        tracing::debug!(target: "spyre.runtime", "the card is reset");
        self.lose(Fault::DeviceReset);
        self.end_external();
        self.hardware.reset();
        for lane in self.lanes() {
            self.wait_through(&lane, lane.ring.reserved());
        }
        // A lease from before would also take what is queued only now, and start it on the new
        // device. It was called back, and a prompt device keeps no thread waiting.
        while self.core.lock().is_leased() {
            spin_loop();
        }
        self.allocator.reset();
        self.core.lock().revive();
        self.lanes().iter().for_each(|lane| self.allocator.settle(lane, || ()));
        Ok(())
    }

    /// Cancels all blocks that are queued and not started. Each stream reports it once, as a fault of
    /// its data.
    #[cold]
    pub(super) fn cancel_queued(&self) {
        self.fail_all(Fault::Interrupted, |core, cause| core.cancel(&cause));
        self.cancel_external();
    }

    fn lose(&self, fault: Fault) {
        self.fail_all(fault, Core::lose);
    }

    /// Has streams fail for a cause that is no block's.
    fn fail_all(&self, fault: Fault, fail: impl FnOnce(&mut Core, Arc<StreamFault>)) {
        let cause = StreamFault {
            point: StreamPoint { stream: StreamIndex(0), sequence: 0 },
            kind: BlockKind::Launch,
            label: Label::default(),
            fault,
        };
        let mut core = self.core.lock();
        fail(&mut core, Arc::new(cause));
        let wakes = core.take_wakes();
        drop(core);
        wake(wakes);
        self.go_on();
    }
}
