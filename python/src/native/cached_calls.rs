//! Calls that a thread has made before: what they launch is kept, and only the memory is looked up.

use std::cell::RefCell;
use std::sync::Arc;

use smallvec::SmallVec;
use spyre::aten::{ResultShape, TensorRef};
use spyre::runtime::{CachedLaunch, SharedLayout, TensorMemory};

use super::{NewTensors, SpyreArgument};
use crate::abi::{NewMemory, SpyreView};
use crate::call_cache::{CallCache, Key, Known};
use crate::cards::{self, Card};
use crate::failure::Failure;
use crate::traffic;

/// A call that was made before.
#[derive(Debug)]
pub(crate) struct CachedCall {
    pub(crate) results: SmallVec<[CachedResult; 1]>,
    launches: SmallVec<[CallLaunch; 1]>,
}

/// A result, and the memory that it takes.
#[derive(Debug)]
pub(crate) struct CachedResult {
    pub(crate) shape: ResultShape,
    layout: SharedLayout,
    host_bytes: u64,
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

thread_local! {
    static CALLS: RefCell<CallCache<CachedCall>> = const { RefCell::new(CallCache::new()) };
}

/// State of a call in the calling thread's cache; a new one is noted.
#[inline]
pub(crate) fn known(key: &Key) -> Known<CachedCall> {
    CALLS.with_borrow_mut(|calls| calls.known(key))
}

/// Keeps a call whose results were made. One with a result of no elements is not kept.
pub(crate) fn keep(key: &Key, made: &NewTensors, launches: SmallVec<[CallLaunch; 1]>) {
    let result = |(shape, memory): (&ResultShape, &NewMemory)| {
        let memory = memory.memory()?;
        let layout = SharedLayout::clone(memory.layout());
        Some(CachedResult { shape: shape.clone(), layout, host_bytes: memory.host_bytes() })
    };
    let results = made.shapes.iter().zip(&made.memories).map(result).collect::<Option<_>>();
    if let Some(results) = results {
        CALLS.with_borrow_mut(|calls| calls.keep(key, CachedCall { results, launches }));
    }
}

impl CachedCall {
    /// Allocates its results and queues all its launches on the calling thread's stream. `None` if they cannot be
    /// made again, and then nothing was queued.
    #[inline]
    pub(crate) fn launch(
        &self,
        card: &'static Card,
        arguments: &[SpyreArgument<'_>],
    ) -> Result<Option<SmallVec<[NewMemory; 1]>>, Failure> {
        let stream = card.current_stream()?;
        let mut made = SmallVec::<[NewMemory; 1]>::new();
        for CachedResult { layout, host_bytes, .. } in &self.results {
            made.push(NewMemory::allocate(card, SharedLayout::clone(layout), *host_bytes)?);
        }
        let mut memories = Memories::new();
        for launch in &self.launches {
            let first = memories.len();
            let is_there = launch.find(arguments, &made, &mut memories)?;
            // All or none: what comes after the first is looked at before the first is queued.
            let is_checked = self.launches.len() == 1;
            if !is_there || !is_checked && !launch.cached.is_alike(stream, &memories[first..]) {
                return Ok(None);
            }
        }
        let mut rest = &memories[..];
        for (nth, launch) in self.launches.iter().enumerate() {
            let (own, others) = rest.split_at(launch.tensors.len());
            rest = others;
            traffic::LAUNCHES.note();
            match launch.cached.launch(stream, own)? {
                Some(_) => {}
                None if nth == 0 => return Ok(None),
                None => return Err(Failure::runtime("the card was reset while an op was queued")),
            }
        }
        Ok(Some(made))
    }
}

type Memories = SmallVec<[Arc<TensorMemory>; 4]>;

impl CallLaunch {
    /// Adds the memory of its tensors; `false` if a tensor is not where it was in its memory.
    #[inline]
    fn find(
        &self,
        arguments: &[SpyreArgument<'_>],
        made: &[NewMemory],
        memories: &mut Memories,
    ) -> Result<bool, Failure> {
        for tensor in &self.tensors {
            if let TensorRef::Result(at) = tensor.place {
                let Some(memory) = made[at].memory() else { return Ok(false) };
                memories.push(Arc::clone(memory));
                continue;
            }
            let view = view_at(tensor.place, arguments, &[]);
            let Some(view) = view.filter(|view| view.address() != 0) else { return Ok(false) };
            let (memory, inside) = cards::memory_at(view.address())?;
            if inside != tensor.inside {
                return Ok(false);
            }
            memories.push(memory);
        }
        Ok(true)
    }
}

/// The view of a tensor of a call.
pub(crate) fn view_at<'a>(
    place: TensorRef,
    arguments: &'a [SpyreArgument<'a>],
    results: &'a [SpyreView<'a>],
) -> Option<&'a SpyreView<'a>> {
    match place {
        TensorRef::Argument(at) => arguments.get(at)?.views().first(),
        TensorRef::Item(at, item) => arguments.get(at)?.views().get(item),
        TensorRef::Result(at) => results.get(at),
    }
}
