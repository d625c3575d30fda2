use spyre_hal::{ControlBlock, Fault, Outcome};

use crate::engines::Turn;
use crate::memory::Memory;
use crate::programs::Programs;
use crate::threads::Threads;
use crate::watched::Watched;

/// A block's turn on the card, and what it may use.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    pub(crate) memory: &'a Memory,
    pub(crate) programs: &'a Programs,
    pub(crate) threads: &'a Threads,
    pub(crate) turn: &'a Turn<'a>,
}

impl Work<'_> {
    /// Carries a block out, and drops it.
    pub(crate) fn carry_out(&self, block: ControlBlock) -> Outcome {
        match block {
            ControlBlock::CopyToDevice(copy) => self.copy_to_device(&copy),
            ControlBlock::CopyStaged(copy) => self.load(copy.target(), copy.bytes()),
            ControlBlock::CopyFromDevice(mut copy) => self.copy_from_device(&mut copy),
            ControlBlock::CopyDevice(copy) => self.copy_on_device(&copy),
            ControlBlock::CopyPeer(copy) => self.copy_to_peer(&copy),
            ControlBlock::Fill { pattern, target } => self.fill(target, pattern),
            ControlBlock::Launch { program, .. } => self.launch(program),
            ControlBlock::HostCallback(_)
            | ControlBlock::RecordEvent(_)
            | ControlBlock::WaitEvent(_) => {
                let why = format!("{} is for the host, not for a card", block.kind());
                Err(Fault::CopyFailed { why: why.into() })
            }
        }
    }

    /// Threads for so many bytes, which stop when the block is to end.
    pub(crate) fn watched(&self, bytes: usize) -> Watched<'_> {
        Watched::new(self.threads, self.turn, bytes)
    }
}
