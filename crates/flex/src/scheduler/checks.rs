//! Checks of a block before it is queued.

use spyre_hal::{ControlBlock, DeviceRange, StreamPoint};
use spyre_layout::DmaNest;

use super::Scheduler;
use crate::Error;
use crate::stream::table::Lane;
use crate::sync::Ordering;

impl Scheduler {
    #[inline]
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.process.is_current() { Ok(()) } else { Err(Error::Forked) }
    }

    #[inline]
    pub(super) fn check_lane(&self, lane: &Lane, blocks: u64) -> Result<(), Error> {
        self.check_process()?;
        if blocks == 0 || blocks > lane.ring.bound() {
            return Err(Error::BatchSize { blocks, bound: lane.ring.bound() });
        }
        if lane.is_refusing.load(Ordering::Acquire) {
            return self.refuse(lane);
        }
        Ok(())
    }

    #[cold]
    fn refuse(&self, lane: &Lane) -> Result<(), Error> {
        match self.core.lock().refusal(lane.index) {
            Some(cause) => Err(Error::Stream(cause)),
            None => Ok(()),
        }
    }

    /// Everything about a block but its handles, which are checked when it is queued.
    #[inline]
    pub(crate) fn check_block(&self, block: &ControlBlock) -> Result<(), Error> {
        match block {
            ControlBlock::WaitEvent(point) => self.check_point(*point),
            other => check_shape(other),
        }
    }

    /// A point that a stream may wait for: a block that was queued here before.
    pub(super) fn check_point(&self, point: StreamPoint) -> Result<(), Error> {
        let lane = self.lane(point.stream)?;
        if point.sequence <= lane.ring.reserved() { Ok(()) } else { Err(Error::ForeignEvent) }
    }
}

/// Lengths and overlaps of a block.
#[inline]
pub(crate) fn check_shape(block: &ControlBlock) -> Result<(), Error> {
    match block {
        ControlBlock::Launch { .. }
        | ControlBlock::HostCallback(_)
        | ControlBlock::External(_)
        | ControlBlock::RecordEvent(_)
        | ControlBlock::WaitEvent(_) => Ok(()),
        ControlBlock::Fill { target, .. } => check_range(target),
        ControlBlock::CopyToDevice(copy) => {
            check_range(&copy.target)?;
            let host = copy.source.bytes().len() as u64;
            let nest = copy.nest.as_deref();
            check_ends(nest, [host, copy.target.bytes], copy.target.bytes)
        }
        ControlBlock::CopyStaged(copy) => {
            let given = copy.bytes().len() as u64;
            let target = copy.target();
            check_range(&target)?;
            check_ends(None, [given, target.bytes], target.bytes)
        }
        ControlBlock::CopyFromDevice(copy) => {
            check_range(&copy.source)?;
            let host = copy.target.bytes().len() as u64;
            let nest = copy.nest.as_deref();
            check_ends(nest, [copy.source.bytes, host], copy.source.bytes)
        }
        ControlBlock::CopyDevice(copy) => {
            check_range(&copy.source)?;
            check_range(&copy.target)?;
            if copy.source.overlaps(&copy.target) {
                return Err(Error::Overlap { from: copy.source, to: copy.target });
            }
            match copy.nest.as_deref() {
                None => check_same(&copy.source, &copy.target),
                nest => check_ends(nest, [copy.source.bytes, copy.target.bytes], 0),
            }
        }
        ControlBlock::CopyPeer(copy) => {
            check_range(&copy.source)?;
            check_same(&copy.source, &copy.target)
        }
    }
}

fn check_range(range: &DeviceRange) -> Result<(), Error> {
    if range.bytes == 0 { Err(Error::ZeroBytes { range: *range }) } else { Ok(()) }
}

fn check_same(source: &DeviceRange, target: &DeviceRange) -> Result<(), Error> {
    if source.bytes == target.bytes {
        Ok(())
    } else {
        Err(Error::UnequalBytes { from: *source, to: *target })
    }
}

/// Checks that the bytes of source and target suffice for a nest, or for so many bytes without one.
fn check_ends(nest: Option<&DmaNest>, given: [u64; 2], bytes: u64) -> Result<(), Error> {
    let needed = match nest {
        Some(nest) => [nest.source_reach_bytes() as u64, nest.target_reach_bytes() as u64],
        None => [bytes; 2],
    };
    if given[0] < needed[0] {
        Err(Error::SourceTooSmall { given: given[0], needed: needed[0] })
    } else if given[1] < needed[1] {
        Err(Error::TargetTooSmall { given: given[1], needed: needed[1] })
    } else {
        Ok(())
    }
}
