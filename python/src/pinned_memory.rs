//! Page-locked host memory, as far as a software card needs it: blocks that are known to the runtime
//! and that a queued copy keeps.
#![allow(unsafe_code, reason = "memory that is aligned to pages")]

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::cards;
use crate::failure::{Failure, SpyreStatus};
use crate::statistics::SpyreStat;

const PAGE_BYTES: usize = 4096;

/// A block; it is freed with its last reference: the program's, or that of a queued copy.
#[derive(Debug)]
pub(crate) struct Block {
    start: usize,
    layout: Layout,
}

/// Bytes and blocks that are allocated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) bytes: SpyreStat,
    pub(crate) blocks: SpyreStat,
}

#[derive(Debug)]
struct PinnedBlocks {
    blocks: BTreeMap<usize, Arc<Block>>,
    counts: Counts,
}

static PINNED: RwLock<PinnedBlocks> = RwLock::new(PinnedBlocks {
    blocks: BTreeMap::new(),
    counts: Counts { bytes: SpyreStat::ZERO, blocks: SpyreStat::ZERO },
});

/// The address of a new block.
pub(crate) fn allocate(bytes: usize) -> Result<usize, Failure> {
    let refused = || {
        let message = format!("{bytes} bytes of pinned host memory are not to be had");
        Failure::new(SpyreStatus::OutOfMemory, message)
    };
    let layout = Layout::from_size_align(bytes.max(1), PAGE_BYTES).map_err(|_| refused())?;
    // SAFETY: the layout holds at least one byte.
    let start = unsafe { alloc(layout) } as usize;
    if start == 0 {
        return Err(refused());
    }
    let mut pinned = PINNED.write();
    pinned.blocks.insert(start, Arc::new(Block { start, layout }));
    pinned.counts.bytes.add(layout.size() as i64);
    pinned.counts.blocks.add(1);
    Ok(start)
}

/// Gives a block back; copies that are queued still have it.
pub(crate) fn free(start: usize) {
    if cards::is_forked() {
        return; // the lock may be held by a thread that the child does not have
    }
    let mut pinned = PINNED.write();
    if let Some(block) = pinned.blocks.remove(&start) {
        pinned.counts.bytes.take(block.layout.size() as i64);
        pinned.counts.blocks.take(1);
    }
}

/// The block that an address lies in.
pub(crate) fn block_at(address: usize) -> Option<Arc<Block>> {
    if cards::is_forked() {
        return None;
    }
    let pinned = PINNED.read();
    let (start, block) = pinned.blocks.range(..=address).next_back()?;
    (address < start + block.layout.size()).then(|| Arc::clone(block))
}

pub(crate) fn counts() -> Counts {
    if cards::is_forked() { Counts::default() } else { PINNED.read().counts }
}

pub(crate) fn reset_peaks() {
    reset(SpyreStat::reset_peak);
}

pub(crate) fn reset_totals() {
    reset(SpyreStat::reset_totals);
}

fn reset(change: impl Fn(&mut SpyreStat)) {
    if cards::is_forked() {
        return;
    }
    let counts = &mut PINNED.write().counts;
    change(&mut counts.bytes);
    change(&mut counts.blocks);
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `allocate` got it with this layout, and the last owner gives it up.
        unsafe { dealloc(self.start as *mut u8, self.layout) }
    }
}
