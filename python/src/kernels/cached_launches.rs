//! Launches of prepared plans that a thread has made before: what they depend on is kept, and only the memory is
//! looked up.

use std::cell::RefCell;
use std::sync::Arc;

use smallvec::SmallVec;
use spyre::hal::StreamPoint;
use spyre::runtime::{CachedLaunch, SharedLayout, SpyreStream, SpyreTensor, TensorMemory};

use super::PreparedPlan;
use crate::abi::SpyreView;
use crate::call_cache::{CallCache, Key, Known};
use crate::cards;
use crate::failure::Failure;
use crate::recording;

/// A launch of a plan, and the number of bytes from the start of each tensor's memory to its storage.
#[derive(Debug)]
struct PlanLaunch {
    cached: CachedLaunch,
    inside: SmallVec<[u64; 8]>,
}

thread_local! {
    static LAUNCHES: RefCell<CallCache<PlanLaunch>> = const { RefCell::new(CallCache::new()) };
}

/// A launch of a plan on tensors that has been made before, or is about to be made.
pub(crate) struct KnownLaunch {
    key: Option<Key>,
    known: Known<PlanLaunch>,
}

impl KnownLaunch {
    /// Looks a launch up. Tensors with layouts of their own are not kept, and a recording notes the tensors of every
    /// launch.
    pub(crate) fn find(plan: &PreparedPlan, views: &[SpyreView<'_>], scalars: &[u64]) -> Self {
        let mut key = Key::new();
        key.push(plan.number.cast_unsigned());
        key.push(scalars.len() as u64);
        key.extend_from_slice(scalars);
        let can_be_kept = views.iter().all(|view| view.add_to_key(&mut key));
        if !can_be_kept || recording::is_on() {
            return Self { key: None, known: Known::New };
        }
        let known = LAUNCHES.with_borrow_mut(|launches| launches.known(&key));
        Self { key: Some(key), known }
    }

    /// Makes it again; `None`, and nothing was queued, if it is not known, or if memory lies otherwise now.
    pub(crate) fn launch(
        &self,
        stream: &SpyreStream,
        views: &[SpyreView<'_>],
    ) -> Result<Option<StreamPoint>, Failure> {
        let Known::Cached(launch) = &self.known else { return Ok(None) };
        let mut memories = SmallVec::<[Arc<TensorMemory>; 8]>::new();
        for (view, &inside) in views.iter().zip(&launch.inside) {
            if view.address() == 0 {
                return Ok(None);
            }
            let (memory, found) = cards::memory_at(view.address())?;
            if found != inside {
                return Ok(None);
            }
            memories.push(memory);
        }
        Ok(launch.cached.launch(stream, &memories)?)
    }

    /// Keeps a launch that was made a second time.
    pub(crate) fn keep(
        self,
        plan: &PreparedPlan,
        stream: &SpyreStream,
        tensors: &[SpyreTensor],
        views: &[SpyreView<'_>],
        scalars: &[u64],
    ) {
        let (Some(key), Known::Seen, Some(plan)) = (self.key, self.known, plan.job.plan()) else {
            return;
        };
        let mut inside = SmallVec::new();
        let mut layouts = SmallVec::<[SharedLayout; 8]>::new();
        for view in views {
            let Ok((memory, found)) = cards::memory_at(view.address()) else { return };
            inside.push(found);
            layouts.push(SharedLayout::clone(memory.layout()));
        }
        let cached = CachedLaunch::of(stream, plan, tensors, &layouts, scalars);
        if let Some(cached) = cached {
            let launch = PlanLaunch { cached, inside };
            LAUNCHES.with_borrow_mut(|launches| launches.keep(&key, launch));
        }
    }
}
