use std::collections::VecDeque;

use spyre_hal::Severity;

use super::block::{Block, State};
use super::{Cause, CauseId};

/// Blocks that are remembered after they have ended, for tickets and events.
const REMEMBERED: usize = 4096;

/// A stream as a plain list: what was queued, and what became of it.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    blocks: VecDeque<Block>,
    /// Blocks that were forgotten: the number of the first that is not, less one.
    forgotten: u64,
    /// The number of the last block that is queued.
    pub(crate) reserved: u64,
    /// Up to where blocks have ended, or will without anything else that can be seen.
    pub(crate) front: u64,
    /// Up to where they are known to have ended.
    pub(crate) pinned: u64,
    /// Up to where the flight recorder was compared.
    pub(crate) verified: u64,
    /// Failures and the blocks that they cancel, oldest first; the last may be open.
    dooms: VecDeque<Doom>,
    /// Number of failures that there ever were.
    pub(crate) doomed_times: u64,
}

/// A failure and the blocks that it cancels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doom {
    pub(crate) cause: CauseId,
    pub(crate) severity: Severity,
    pub(crate) from: u64,
    /// The last block; open until the failure was reported to a caller, or the stream was reset.
    pub(crate) until: Option<u64>,
    /// It came by waiting for another stream.
    is_inherited: bool,
    /// It was reported to a caller, or the stream was reset: what it cancelled is poisoned by now.
    is_over: bool,
}

impl Lane {
    pub(crate) fn get(&self, sequence: u64) -> Option<&Block> {
        let at = sequence.checked_sub(self.forgotten + 1)?;
        self.blocks.get(at as usize)
    }

    pub(crate) fn get_mut(&mut self, sequence: u64) -> Option<&mut Block> {
        let at = sequence.checked_sub(self.forgotten + 1)?;
        self.blocks.get_mut(at as usize)
    }

    pub(crate) fn push(&mut self, block: Block) -> u64 {
        self.blocks.push_back(block);
        self.reserved += 1;
        while self.blocks.len() > REMEMBERED && self.forgotten < self.verified.min(self.pinned) {
            self.blocks.pop_front();
            self.forgotten += 1;
        }
        self.reserved
    }

    /// Takes the last block back: it was refused.
    pub(crate) fn pop(&mut self) -> Option<Block> {
        self.reserved -= 1;
        self.blocks.pop_back()
    }

    /// The cause that cancels a block: the oldest that does.
    pub(crate) fn doom_of(&self, sequence: u64) -> Option<CauseId> {
        self.dooms.iter().find(|doom| doom.covers(sequence)).map(|doom| doom.cause)
    }

    /// The cause for which a block did not do its work, or will not.
    pub(crate) fn failure_of(&self, sequence: u64) -> Option<CauseId> {
        let ended = self.get(sequence).and_then(|block| block.state.cause());
        ended.or_else(|| self.doom_of(sequence))
    }

    /// The failure that was not yet reported to a caller, or that stays until a reset.
    pub(crate) fn open(&self) -> Option<&Doom> {
        self.dooms.back().filter(|doom| doom.until.is_none())
    }

    /// The open failure, if the scheduler must know of it.
    pub(crate) fn open_for_certain(&self) -> Option<&Doom> {
        self.open().filter(|doom| doom.is_certain(self.pinned))
    }

    pub(crate) fn is_open_uncertain(&self) -> bool {
        self.open().is_some_and(|doom| !doom.is_certain(self.pinned))
    }

    /// Returns true if the stream never failed before, and the scheduler need not know yet that it
    /// does now.
    pub(crate) fn is_first_doom_uncertain(&self) -> bool {
        self.doomed_times == 1 && self.is_open_uncertain()
    }

    pub(crate) fn fail(&mut self, cause: &Cause, from: u64, is_inherited: bool) {
        let reserved = self.reserved;
        let severity = cause.fault.severity();
        let id = cause.id;
        let doom = Doom { cause: id, severity, from, until: None, is_inherited, is_over: false };
        match self.dooms.back_mut().filter(|doom| doom.until.is_none()) {
            None => self.doom(doom),
            // It was running when the device was lost: its own fault, and no other block's.
            Some(open) if from < open.from => {}
            Some(open) if open.severity == Severity::Data && severity > Severity::Data => {
                open.until = Some(reserved);
                self.doom(doom);
            }
            Some(_) => {}
        }
    }

    /// Tells the open failure; after a data fault, the stream goes on behind what is queued.
    pub(crate) fn tell(&mut self) -> Option<CauseId> {
        let reserved = self.reserved;
        let open = self.dooms.back_mut().filter(|doom| doom.until.is_none())?;
        let cause = open.cause;
        let severity = open.severity;
        if severity == Severity::Data {
            self.end_doom(reserved);
        }
        Some(cause)
    }

    /// The stream was reset: it goes on behind what is queued. A failure that the scheduler does
    /// not know of yet is still to come.
    pub(crate) fn clear(&mut self) {
        if self.open_for_certain().is_some() {
            self.end_doom(self.reserved);
        }
    }

    /// Ends the open failure, and those that it made worse.
    fn end_doom(&mut self, until: u64) {
        for doom in &mut self.dooms {
            doom.until.get_or_insert(until);
            doom.is_over = true;
        }
    }

    /// Takes back what was only presumed: the device is about to be lost, and what the scheduler
    /// has not looked at by now is cancelled instead.
    pub(crate) fn unpresume(&mut self) {
        let pinned = self.pinned;
        self.dooms.retain(|doom| doom.is_certain(pinned));
        for sequence in pinned + 1..=self.front {
            if let Some(block) = self.get_mut(sequence) {
                block.state = State::Queued;
            }
        }
        self.front = pinned;
    }

    /// The last block that was taken in hand.
    pub(crate) fn taken(&self) -> u64 {
        let is_running = self.get(self.front + 1).is_some_and(|b| b.state == State::Running);
        self.front + u64::from(is_running)
    }

    fn doom(&mut self, doom: Doom) {
        let front = self.pinned.min(self.front);
        self.dooms.retain(|doom| !doom.is_over || doom.until.is_none_or(|until| until > front));
        self.dooms.push_back(doom);
        self.doomed_times += 1;
    }
}

impl Doom {
    fn covers(&self, sequence: u64) -> bool {
        sequence >= self.from && self.until.is_none_or(|until| sequence <= until)
    }

    fn is_certain(&self, pinned: u64) -> bool {
        !self.is_inherited || self.from <= pinned
    }
}
