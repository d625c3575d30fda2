use spyre_flex::{self as flex, FailureEpoch, MemoryUse};
use spyre_hal::{ControlBlock, StreamPoint};

use crate::{Error, SpyreStream};

/// Control blocks that are queued as one, and the memory that they use besides what they name. It is
/// filled again and again.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    blocks: Vec<ControlBlock>,
    uses: Vec<MemoryUse>,
    most_blocks: usize,
    /// True if a part of the launch is queued already.
    is_begun: bool,
    last: Option<StreamPoint>,
}

/// A launch of very many tiles is queued in parts: the first run while the rest is put together.
const MOST_BLOCKS: u64 = 3 * 512;

impl Batch {
    /// Begins anew.
    pub(crate) fn begin(&mut self, stream: &SpyreStream) {
        self.blocks.clear(); // what a launch that was refused has left
        self.uses.clear();
        self.is_begun = false;
        self.most_blocks = MOST_BLOCKS.min(stream.flex().queue_bound()) as usize;
    }

    /// Returns true if the blocks are to be [taken](Self::take).
    pub(crate) fn is_to_take(&self) -> bool {
        self.most_blocks == usize::MAX
    }

    /// Begins blocks that are not queued, but [taken](Self::take).
    pub(crate) fn begin_to_take(&mut self) {
        self.blocks.clear();
        self.uses.clear();
        self.most_blocks = usize::MAX;
    }

    /// Takes the blocks.
    pub(crate) fn take(&mut self) -> Vec<ControlBlock> {
        std::mem::take(&mut self.blocks)
    }

    /// Notes the last block of what was taken, once that is queued.
    pub(crate) fn set_last(&mut self, last: StreamPoint) {
        self.last = Some(last);
    }

    /// Memory that every block may use.
    pub(crate) fn uses(&mut self, used: MemoryUse) {
        self.uses.push(used);
    }

    /// Inlined always: a block that is made in place is not copied.
    #[inline(always)]
    pub(crate) fn push(&mut self, stream: &SpyreStream, block: ControlBlock) -> Result<(), Error> {
        if self.blocks.len() >= self.most_blocks {
            self.flush(stream)?;
        }
        self.blocks.push(block);
        Ok(())
    }

    /// The last block that was queued: what comes before it may be in use until it is done.
    pub(crate) fn last(&self) -> Option<StreamPoint> {
        self.last
    }

    /// Queues what there is, if the stream has not failed since; else nothing, and `None`.
    #[inline]
    pub(crate) fn flush_unless_failed_since(
        &mut self,
        stream: &SpyreStream,
        epoch: FailureEpoch,
    ) -> Result<Option<StreamPoint>, Error> {
        let point =
            stream.flex().submit_unless_failed_since(epoch, &mut self.blocks, &self.uses)?;
        self.last = point.or(self.last);
        Ok(point)
    }

    /// Queues what there is; the last block's point, if there ever was any.
    #[inline]
    pub(crate) fn flush(&mut self, stream: &SpyreStream) -> Result<Option<StreamPoint>, Error> {
        if self.blocks.is_empty() {
            return Ok(self.last);
        }
        let queued = match stream.flex().submit_using(&mut self.blocks, &self.uses) {
            Err(flex::Error::QueueFull { .. }) if self.is_begun => self.flush_later(stream)?,
            queued => queued?,
        };
        self.is_begun = true;
        self.last = Some(queued);
        Ok(self.last)
    }

    /// Queues a later part of a launch, which cannot be made again from its start, as soon as there is room.
    #[cold]
    fn flush_later(&mut self, stream: &SpyreStream) -> Result<StreamPoint, Error> {
        // The launch's locks are held.
        let _held = flex::hold_interrupts();
        loop {
            stream.flex().wait_for_room(self.blocks.len() as u64)?;
            match stream.flex().submit_using(&mut self.blocks, &self.uses) {
                Err(flex::Error::QueueFull { .. }) => {}
                queued => return Ok(queued?),
            }
        }
    }
}

/// Makes a launch, which never waits, as it has locks that a signal's handler may need: if the queue is full,
/// waits for room without them, and makes it again.
#[inline]
pub(crate) fn with_room<R>(
    stream: &SpyreStream,
    launch: impl Fn() -> Result<R, Error>,
) -> Result<R, Error> {
    loop {
        match launch() {
            Err(Error::Flex(flex::Error::QueueFull { .. })) => {
                stream.flex().wait_for_room(MOST_BLOCKS)?;
            }
            made => return made,
        }
    }
}
