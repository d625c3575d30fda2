use spyre_artifact::cost;
use spyre_hal::{ControlBlock, Fault};

use crate::abortable_crew::AbortableCrew;
use crate::engines::EngineTurn;
use crate::memory::Memory;
use crate::programs::Programs;
use crate::threads::Threads;

/// A block's turn on the card, and what it may use.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    pub(crate) memory: &'a Memory,
    pub(crate) programs: &'a Programs,
    pub(crate) threads: &'a Threads,
    pub(crate) turn: &'a EngineTurn<'a>,
}

impl Work<'_> {
    /// Carries a block out, and drops it. Says how long it would have taken on a real card.
    pub(crate) fn carry_out(&self, block: ControlBlock) -> Result<u64, Fault> {
        match block {
            ControlBlock::CopyToDevice(copy) => self.copy_to_device(&copy),
            ControlBlock::CopyStaged(copy) => self.load(copy.target(), copy.bytes()),
            ControlBlock::CopyFromDevice(mut copy) => {
                self.copy_from_device(&mut copy).map(|()| cost::transfer(copy.source.bytes))
            }
            ControlBlock::CopyDevice(copy) => {
                self.copy_on_device(&copy).map(|()| cost::copy(copy.target.bytes))
            }
            ControlBlock::CopyPeer(copy) => {
                self.copy_to_peer(&copy).map(|()| cost::transfer(copy.source.bytes))
            }
            ControlBlock::Fill { pattern, target } => {
                self.fill(target, pattern).map(|()| cost::fill(target.bytes))
            }
            ControlBlock::Launch { program, checked_operands, .. } => {
                self.launch(program, checked_operands)
            }
            ControlBlock::HostCallback(_)
            | ControlBlock::External(_)
            | ControlBlock::RecordEvent(_)
            | ControlBlock::WaitEvent(_) => {
                let why = format!("{} is for the host, not for a card", block.kind());
                Err(Fault::CopyFailed { why: why.into() })
            }
        }
    }

    /// Threads for so many bytes, which stop when the block is to end.
    pub(crate) fn crew(&self, bytes: usize) -> AbortableCrew<'_> {
        AbortableCrew::new(self.threads, self.turn, bytes)
    }
}
