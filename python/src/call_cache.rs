//! A thread's calls that were made before, by all that they depend on except for memory.

use std::rc::Rc;

use smallvec::SmallVec;

use crate::recording;

/// Calls that a thread keeps; each has one place where it may be.
const KEPT: usize = 1024;

/// All that a call's kernels and views depend on, but for the memory.
pub(crate) type Key = SmallVec<[u64; 64]>;

/// State of a call in a thread's cache.
#[derive(Debug)]
pub(crate) enum Known<T> {
    /// The thread has not made it, or no longer keeps it.
    New,
    /// It was made once: the next time it is kept.
    Seen,
    Cached(Rc<T>),
}

impl<T> Clone for Known<T> {
    fn clone(&self) -> Self {
        match self {
            Self::New => Self::New,
            Self::Seen => Self::Seen,
            Self::Cached(call) => Self::Cached(Rc::clone(call)),
        }
    }
}

/// Calls that a thread keeps.
#[derive(Debug)]
pub(crate) struct CallCache<T> {
    places: Vec<Option<(Key, Known<T>)>>,
}

impl<T> CallCache<T> {
    /// A cache of nothing, which takes no memory.
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new() }
    }

    /// State of a call; a new one is noted. During a recording every call is new: the path of new calls is the one
    /// that records.
    #[inline]
    pub(crate) fn known(&mut self, key: &Key) -> Known<T> {
        if recording::is_on() {
            return Known::New;
        }
        if self.places.is_empty() {
            self.places.resize_with(KEPT, || None);
        }
        match &mut self.places[place(key)] {
            Some((kept, known)) if kept == key => known.clone(),
            other => {
                *other = Some((key.clone(), Known::Seen));
                Known::New
            }
        }
    }

    /// Keeps a call that was seen.
    pub(crate) fn keep(&mut self, key: &Key, call: T) {
        if let Some(kept) = self.places.get_mut(place(key)) {
            *kept = Some((key.clone(), Known::Cached(Rc::new(call))));
        }
    }
}

fn place(key: &Key) -> usize {
    let fold =
        |hash: u64, word: &u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    (key.iter().fold(0, fold) >> 40) as usize % KEPT
}
