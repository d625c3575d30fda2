use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use spyre_hal::Outcome;
use spyre_layout::Crew;

use crate::engines::EngineTurn;
use crate::threads::Threads;

/// Threads for one copy, which stop between two pieces of it when the block is to end.
///
/// Where they stop early they leave parts undone, and `outcome` says so: the one case in which a
/// crew does not run every part.
#[derive(Debug)]
pub(crate) struct AbortableCrew<'a> {
    threads: &'a Threads,
    turn: &'a EngineTurn<'a>,
    pieces: usize,
    piece_bytes: usize,
    is_cut_short: AtomicBool,
}

/// Less than this is not worth a second thread.
const LEAST_BYTES: usize = 768 << 10;

/// Bytes that a thread copies before it checks if the block is to end: a millisecond or so.
const MOST_BYTES: usize = 6 << 20;

/// Pieces are multiples of this: a whole number of pages, and of every pattern of a fill.
const UNIT_BYTES: usize = 12 << 10;

impl<'a> AbortableCrew<'a> {
    pub(crate) fn new(threads: &'a Threads, turn: &'a EngineTurn<'a>, bytes: usize) -> Self {
        let piece_bytes = match bytes {
            0..=LEAST_BYTES => LEAST_BYTES,
            _ => (bytes / (2 * threads.count())).clamp(LEAST_BYTES, MOST_BYTES),
        };
        let piece_bytes = piece_bytes.next_multiple_of(UNIT_BYTES);
        let pieces = bytes.div_ceil(piece_bytes);
        Self { threads, turn, pieces, piece_bytes, is_cut_short: AtomicBool::new(false) }
    }

    /// Number of pieces that the bytes are cut into.
    pub(crate) fn pieces(&self) -> usize {
        self.pieces
    }

    /// Bytes of each piece, but for the last.
    pub(crate) fn piece_bytes(&self) -> usize {
        self.piece_bytes
    }

    /// Outcome of the copy: an error if not all parts were run.
    pub(crate) fn outcome(&self) -> Outcome {
        if self.is_cut_short.load(Ordering::Relaxed) { Err(self.turn.cut_short()) } else { Ok(()) }
    }

    /// The next part, unless there is none or the block is to end.
    fn next(&self, taken: &AtomicUsize, parts: usize) -> Option<usize> {
        let part = taken.fetch_add(1, Ordering::Relaxed);
        if part < parts && self.turn.is_to_end() {
            self.is_cut_short.store(true, Ordering::Relaxed);
            return None;
        }
        (part < parts).then_some(part)
    }
}

impl Crew for AbortableCrew<'_> {
    /// More than there are threads, so that a nest is cut into pieces, too.
    fn threads(&self) -> usize {
        self.pieces.max(1)
    }

    fn run(&self, parts: usize, job: &(dyn Fn(usize) + Sync)) {
        let taken = AtomicUsize::new(0);
        let work = || {
            while let Some(part) = self.next(&taken, parts) {
                job(part);
            }
        };
        match parts {
            0 | 1 => work(),
            _ => self.threads.share(parts, &work),
        }
    }
}
