use smallvec::SmallVec;
use spyre_hal::{ControlBlock, DeviceRange, StreamPoint};

use crate::{Error, SpyreStream};

/// Control blocks that are queued as one, and the memory that they use besides what they name.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    stream: &'a SpyreStream,
    blocks: SmallVec<[ControlBlock; 12]>,
    uses: SmallVec<[DeviceRange; 12]>,
    most_blocks: usize,
    last: Option<StreamPoint>,
}

/// A launch of very many tiles is queued in parts: the first run while the rest is put together.
const MOST_BLOCKS: u64 = 3 * 512;

impl<'a> Batch<'a> {
    pub(crate) fn new(stream: &'a SpyreStream) -> Self {
        let most_blocks = MOST_BLOCKS.min(stream.flex().queue_bound()) as usize;
        let (blocks, uses) = (SmallVec::new(), SmallVec::new());
        Self { stream, blocks, uses, most_blocks, last: None }
    }

    /// Memory that every block may use.
    pub(crate) fn uses(&mut self, range: DeviceRange) {
        self.uses.push(range);
    }

    pub(crate) fn push(&mut self, block: ControlBlock) -> Result<(), Error> {
        if self.blocks.len() == self.most_blocks {
            self.flush()?;
        }
        self.blocks.push(block);
        Ok(())
    }

    /// Queues what there is; the last block's point, if there was any.
    pub(crate) fn flush(&mut self) -> Result<Option<StreamPoint>, Error> {
        if !self.blocks.is_empty() {
            let blocks = std::mem::take(&mut self.blocks);
            self.last = Some(self.stream.flex().submit_using(blocks, &self.uses)?);
        }
        Ok(self.last)
    }
}
