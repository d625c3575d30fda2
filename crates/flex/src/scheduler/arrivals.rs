use spyre_hal::StreamIndex;

use crate::stream::ring::Line;
use crate::stream::table::Lane;
use crate::sync::{AtomicBool, AtomicU64, Ordering, fence, often};

const WORDS: usize = often(64, 1) as usize;

/// Streams that have blocks again, and that the scheduler does not look at yet.
#[derive(Debug)]
pub(crate) struct Arrivals {
    head: Line<Head>,
    words: [AtomicU64; WORDS],
}

#[derive(Debug, Default)]
struct Head {
    /// A bit for each word that is not zero.
    summary: AtomicU64,
    /// True if a thread waits for the scheduler's attention.
    is_called: AtomicBool,
}

impl Arrivals {
    pub(crate) fn new() -> Self {
        Self { head: Line::default(), words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Puts a stream on the list if it is not there. Call it after a fence, light or full, after a publication; it
    /// is followed by a fence itself.
    #[inline]
    pub(crate) fn list(&self, lane: &Lane) {
        if !lane.is_listed.load(Ordering::Relaxed) && !lane.is_listed.swap(true, Ordering::AcqRel) {
            self.add(lane.index);
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.0.summary.load(Ordering::Acquire) == 0
    }

    /// Asks the thread that carries out a stream without the scheduler's lock to come back.
    pub(crate) fn call(&self) {
        self.head.0.is_called.store(true, Ordering::SeqCst);
    }

    /// Returns true if it is to come back: another stream has blocks, or a thread called.
    #[inline]
    pub(crate) fn is_called(&self) -> bool {
        !self.is_empty() || self.head.0.is_called.load(Ordering::Acquire)
    }

    /// Takes the call back. Like the call, it comes from a thread that has the scheduler's lock.
    #[inline]
    pub(crate) fn answer(&self) {
        if self.head.0.is_called.load(Ordering::Relaxed) {
            self.head.0.is_called.store(false, Ordering::SeqCst);
        }
    }

    /// Takes every stream off the list.
    pub(crate) fn take(&self, mut each: impl FnMut(StreamIndex)) {
        let mut summary = self.head.0.summary.swap(0, Ordering::AcqRel);
        while summary != 0 {
            let at = summary.trailing_zeros() as usize;
            summary &= summary - 1;
            let mut word = self.words[at].swap(0, Ordering::AcqRel);
            while word != 0 {
                each(StreamIndex((at * 64) as u16 + word.trailing_zeros() as u16));
                word &= word - 1;
            }
        }
    }

    #[cold]
    fn add(&self, stream: StreamIndex) {
        let at = usize::from(stream.0) / 64;
        let bit = stream.0 % 64;
        self.words[at].fetch_or(1 << bit, Ordering::AcqRel);
        self.head.0.summary.fetch_or(1 << at, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }
}
