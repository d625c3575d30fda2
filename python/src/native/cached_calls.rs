//! Calls that a thread has made before: what they launch is kept, and only the memory is looked up.
#![allow(unsafe_code, reason = "pointers of a framework that is written in C++")]

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use smallvec::SmallVec;
use spyre::aten::{ResultShape, TensorRef};
use spyre::runtime::{CachedLaunch, TensorMemory};

use super::RawArgument;
use crate::abi::RawView;
use crate::cards::{self, Card};
use crate::failure::Failure;
use crate::recording;
use crate::traffic;

/// Calls that a thread keeps; each has one place where it may be.
const KEPT: usize = 1024;

/// All that a call's kernels and views depend on, but for the memory.
pub(crate) type Key = SmallVec<[u64; 64]>;

/// A call that was made before.
#[derive(Debug)]
pub(crate) struct CachedCall {
    pub(crate) results: SmallVec<[ResultShape; 1]>,
    launches: SmallVec<[CallLaunch; 1]>,
}

/// One of its launches.
#[derive(Debug)]
pub(crate) struct CallLaunch {
    pub(crate) cached: CachedLaunch,
    pub(crate) tensors: SmallVec<[CallTensor; 4]>,
}

/// A tensor of the call, and the number of bytes from the start of its memory to its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallTensor {
    pub(crate) place: TensorRef,
    pub(crate) inside: u64,
}

/// State of a call in a thread's cache.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// The thread has not made it, or no longer keeps it.
    New,
    /// It was made once: the next time it is kept.
    Seen,
    Cached(Rc<CachedCall>),
}

thread_local! {
    static CALLS: RefCell<Vec<Option<(Key, Known)>>> = const { RefCell::new(Vec::new()) };
}

/// State of a call in the calling thread's cache; a new one is noted. During a recording every call is new:
/// the path of new calls is the one that records.
#[inline]
pub(crate) fn known(key: &Key) -> Known {
    if recording::is_on() {
        return Known::New;
    }
    CALLS.with_borrow_mut(|calls| {
        if calls.is_empty() {
            calls.resize_with(KEPT, || None);
        }
        match &mut calls[place(key)] {
            Some((kept, known)) if kept == key => known.clone(),
            other => {
                *other = Some((key.clone(), Known::Seen));
                Known::New
            }
        }
    })
}

/// Keeps a call.
pub(crate) fn keep(
    key: &Key,
    results: SmallVec<[ResultShape; 1]>,
    launches: SmallVec<[CallLaunch; 1]>,
) {
    let kept = Known::Cached(Rc::new(CachedCall { results, launches }));
    CALLS.with_borrow_mut(|calls| calls[place(key)] = Some((key.clone(), kept)));
}

impl CachedCall {
    /// Queues all its launches on the calling thread's stream. `false` if they cannot be made again, and
    /// then nothing was queued.
    ///
    /// # Safety
    /// The views' pointers are good.
    #[inline]
    pub(crate) unsafe fn launch(
        &self,
        card: &Card,
        arguments: &[RawArgument],
        results: &[RawView],
    ) -> Result<bool, Failure> {
        let stream = card.current_stream()?;
        let mut memories = Memories::new();
        for launch in &self.launches {
            let first = memories.len();
            // SAFETY: as promised.
            let is_there = unsafe { launch.find(arguments, results, &mut memories)? };
            // All or none: what comes after the first is looked at before the first is queued.
            let is_checked = self.launches.len() == 1;
            if !is_there || !is_checked && !launch.cached.is_alike(stream, &memories[first..]) {
                return Ok(false);
            }
        }
        let mut rest = &memories[..];
        for (nth, launch) in self.launches.iter().enumerate() {
            let (own, others) = rest.split_at(launch.tensors.len());
            rest = others;
            traffic::LAUNCHES.note();
            match launch.cached.launch(stream, own)? {
                Some(_) => {}
                None if nth == 0 => return Ok(false),
                None => return Err(Failure::runtime("the card was reset while an op was queued")),
            }
        }
        Ok(true)
    }
}

type Memories = SmallVec<[Arc<TensorMemory>; 4]>;

impl CallLaunch {
    /// Adds the memory of its tensors; `false` if a tensor is not where it was in its memory.
    ///
    /// # Safety
    /// The views' pointers are good.
    #[inline]
    unsafe fn find(
        &self,
        arguments: &[RawArgument],
        results: &[RawView],
        memories: &mut Memories,
    ) -> Result<bool, Failure> {
        for tensor in &self.tensors {
            // SAFETY: as promised.
            let view = unsafe { view_at(tensor.place, arguments, results) };
            let Some(view) = view.filter(|view| !view.data.is_null()) else { return Ok(false) };
            let (memory, inside) = cards::memory_at(view.data as u64)?;
            if inside != tensor.inside {
                return Ok(false);
            }
            memories.push(memory);
        }
        Ok(true)
    }
}

/// The view of a tensor of a call.
///
/// # Safety
/// The arguments' pointers are good.
pub(crate) unsafe fn view_at<'a>(
    place: TensorRef,
    arguments: &'a [RawArgument],
    results: &'a [RawView],
) -> Option<&'a RawView> {
    match place {
        // SAFETY: as promised.
        TensorRef::Argument(at) => unsafe { arguments.get(at)?.view(0) },
        // SAFETY: as promised.
        TensorRef::Item(at, item) => unsafe { arguments.get(at)?.view(item) },
        TensorRef::Result(at) => results.get(at),
    }
}

fn place(key: &Key) -> usize {
    let fold =
        |hash: u64, word: &u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    (key.iter().fold(0, fold) >> 40) as usize % KEPT
}
