use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;
use spyre_artifact::CompilerOutput;
use spyre_flex::hold_interrupts;

use crate::blocking::LocationInSegment;
use crate::plan::binary::Binary;
use crate::plan::definition::Definition;
use crate::plan::loaded_plan::LoadedPlan;
use crate::{Error, SpyreStream};

/// A definition, and its images on a device once they are loaded.
#[derive(Debug)]
pub(crate) struct LoadablePlan {
    definition: Definition,
    loaded: ArcSwapOption<LoadedPlan>,
    loading: Mutex<()>,
}

impl std::ops::Deref for LoadablePlan {
    type Target = Definition;

    #[inline]
    fn deref(&self) -> &Definition {
        &self.definition
    }
}

/// Loaded images, held without a reference count: launches of many threads do not contend.
#[derive(Debug)]
pub(crate) struct LoadedGuard(Guard<Option<Arc<LoadedPlan>>>);

impl LoadedGuard {
    /// Turns it into a reference count, to keep.
    pub(crate) fn shared(self) -> Arc<LoadedPlan> {
        let loaded = Guard::into_inner(self.0);
        loaded.expect("it was looked at when it was made")
    }
}

impl std::ops::Deref for LoadedGuard {
    type Target = LoadedPlan;

    fn deref(&self) -> &LoadedPlan {
        self.0.as_ref().expect("it was looked at when it was made")
    }
}

impl LoadablePlan {
    pub(crate) fn new(output: CompilerOutput) -> Result<Self, Error> {
        let definition = Definition::new(output)?;
        Ok(Self { definition, loaded: ArcSwapOption::empty(), loading: Mutex::default() })
    }

    pub(crate) fn loaded(&self) -> Option<Arc<LoadedPlan>> {
        self.loaded.load_full()
    }

    /// Makes later work of a stream wait until the images are copied. If it will not be,
    /// because a copy of it failed, it is loaded anew.
    #[inline]
    pub(crate) fn ready_on(
        &self,
        stream: &SpyreStream,
        loaded: LoadedGuard,
    ) -> Result<LoadedGuard, Error> {
        // What a reset took away is for the caller to load.
        if loaded.is_ready_on(stream)? || !loaded.is_live() {
            return Ok(loaded);
        }
        self.load_again(stream)?;
        let loaded = self.loaded_for(stream, "")?;
        loaded.is_ready_on(stream)?;
        Ok(loaded)
    }

    /// Loaded images, for a launch of `operation` on this stream.
    pub(crate) fn loaded_for(
        &self,
        stream: &SpyreStream,
        operation: &str,
    ) -> Result<LoadedGuard, Error> {
        let operation = || operation.to_owned();
        let guard = LoadedGuard(self.loaded.load());
        let loaded = guard.0.as_ref().ok_or_else(|| Error::NotLoaded { operation: operation() })?;
        if !loaded.device().is(stream.device()) {
            let loaded = loaded.device().index();
            let given = stream.device().index();
            return Err(Error::PlanDevice { operation: operation(), loaded, given });
        }
        Ok(guard)
    }

    pub(crate) fn load(&self, stream: &SpyreStream) -> Result<(), Error> {
        let loader = stream.device().loader()?;
        self.load_by(stream, |image| put(&loader, image))
    }

    /// Loads it anew, as a copy of it failed.
    #[cold]
    fn load_again(&self, stream: &SpyreStream) -> Result<(), Error> {
        let _one_at_a_time = (hold_interrupts(), self.loading.lock());
        if let Some(loaded) = self.loaded()
            && loaded.is_ready_on(stream)?
        {
            return Ok(()); // another thread was faster
        }
        let loader = stream.device().loader()?;
        // Its fault is known by now to the streams that waited for the copies.
        loader.reset()?;
        let loaded = LoadedPlan::load(&self.definition, stream, |image| put(&loader, image))?;
        self.loaded.store(Some(Arc::new(loaded)));
        Ok(())
    }

    /// Loads it to places that are there; of what is loaded already, none is used.
    pub(crate) fn load_at(
        &self,
        stream: &SpyreStream,
        locations: &mut impl Iterator<Item = LocationInSegment>,
    ) -> Result<(), Error> {
        let loader = stream.device().loader()?;
        self.load_by(stream, |image| match locations.next() {
            Some(location) => Binary::load_at(&loader, image, location),
            None => Err(Error::LocationCount { expected: self.code_bytes().len(), given: 0 }),
        })
    }

    /// Returns true if it is on a device, and no reset took it away.
    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded().is_some_and(|loaded| loaded.is_live())
    }

    fn load_by(
        &self,
        stream: &SpyreStream,
        put: impl FnMut(Vec<u8>) -> Result<Binary, Error>,
    ) -> Result<(), Error> {
        let _one_at_a_time = (hold_interrupts(), self.loading.lock());
        if let Some(loaded) = self.loaded() {
            let name = self.definition.output().steps.first().map_or("", |step| &step.name);
            if !loaded.device().is(stream.device()) || loaded.is_live() {
                return self.loaded_for(stream, name).map(drop);
            }
        }
        let loaded = Arc::new(LoadedPlan::load(&self.definition, stream, put)?);
        tracing::debug!(
            target: "spyre.execution",
            "plan {:?} is loaded on device {}: {} binaries",
            self.definition.output().steps.first().map_or("", |step| &step.name),
            stream.device().index(),
            self.definition.output().images.len(),
        );
        self.loaded.store(Some(loaded));
        Ok(())
    }
}

/// Copies code to memory of its own.
fn put(loader: &SpyreStream, image: Vec<u8>) -> Result<Binary, Error> {
    let bytes = image.len() as u64;
    Binary::load(loader, image, bytes)
}
