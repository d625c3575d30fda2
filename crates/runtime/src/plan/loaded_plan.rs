use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use spyre_artifact::{Code, CodeImage, ImageId};
use spyre_flex::hold_interrupts;
use spyre_hal::{DeviceHandle, StreamIndex};

use crate::instance::{Instance, Parts};
use crate::plan::binary::Binary;
use crate::plan::definition::Definition;
use crate::plan::load::Load;
use crate::{Device, Error, SpyreStream};

const CHUNK: usize = 64;
type Chunk = [OnceLock<Instance>; CHUNK];

/// A plan on a device: shared code, and an instance for each stream that launches it.
#[derive(Debug)]
pub(crate) struct LoadedPlan {
    device: Device,
    /// Per image; correction programs are part of their instances.
    codes: Vec<Option<Arc<Binary>>>,
    parts: Parts,
    first: StreamIndex,
    /// The copies of the code.
    load: Load,
    instances: [OnceLock<Box<Chunk>>; CHUNK],
    making: Mutex<()>,
}

impl LoadedPlan {
    /// Copies all code through the device's loader, and makes the stream's instance.
    pub(crate) fn load(
        definition: &Definition,
        stream: &SpyreStream,
        mut put: impl FnMut(Vec<u8>) -> Result<Binary, Error>,
    ) -> Result<Self, Error> {
        let mut code = |image: &CodeImage| match image.code() {
            Code::Correction(_) => Ok(None),
            Code::Compute(_) => put(image.encode()).map(|binary| Some(Arc::new(binary))),
        };
        let codes: Result<Vec<_>, Error> =
            definition.output().images.iter().map(&mut code).collect();
        let codes = codes?;
        let loaded = Self {
            device: stream.device().clone(),
            parts: Parts::new(definition, &codes)?,
            codes,
            first: stream.flex().index(),
            load: Load::of(&stream.device().loader()?)?,
            instances: [const { OnceLock::new() }; CHUNK],
            making: Mutex::default(),
        };
        loaded.instance(stream)?;
        Ok(loaded)
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn code(&self, image: ImageId) -> Option<DeviceHandle> {
        Some(self.codes.get(image.0 as usize)?.as_ref()?.handle())
    }

    /// Returns true if no reset has taken it away.
    pub(crate) fn is_live(&self) -> bool {
        self.codes.iter().flatten().all(|code| code.is_live()) && self.first().is_live()
    }

    /// Has what a stream is given from now on wait until the code and the stream's instance are there.
    /// `false` if they will not be: a copy of them failed.
    #[inline]
    pub(crate) fn is_ready_on(&self, stream: &SpyreStream) -> Result<bool, Error> {
        let instance = self.instance(stream)?;
        Ok(self.load.is_ready_on(stream)? && instance.load().is_ready_on(stream)?)
    }

    /// Like [`is_ready_on`](Self::is_ready_on), of the code alone.
    pub(crate) fn is_code_ready_on(&self, stream: &SpyreStream) -> Result<bool, Error> {
        self.load.is_ready_on(stream)
    }

    /// The instance of the stream that loaded the plan.
    pub(crate) fn first(&self) -> &Instance {
        self.known(self.first).expect("it was made when the plan was loaded")
    }

    /// The stream's instance, which is made when it is first asked for.
    #[inline]
    pub(crate) fn instance(&self, stream: &SpyreStream) -> Result<&Instance, Error> {
        match self.known(stream.flex().index()) {
            Some(instance) => Ok(instance),
            None => self.make(stream),
        }
    }

    /// An instance for one caller on a stream.
    pub(crate) fn new_instance(&self, stream: &SpyreStream) -> Result<Instance, Error> {
        let _held = hold_interrupts();
        self.parts.instance(&stream.device().loader()?)
    }

    #[inline]
    fn known(&self, stream: StreamIndex) -> Option<&Instance> {
        let at = usize::from(stream.0);
        self.instances.get(at / CHUNK)?.get()?[at % CHUNK].get()
    }

    #[cold]
    fn make(&self, stream: &SpyreStream) -> Result<&Instance, Error> {
        let _one_at_a_time = (hold_interrupts(), self.making.lock());
        let at = usize::from(stream.flex().index().0);
        let chunk =
            self.instances[at / CHUNK].get_or_init(|| Box::new([const { OnceLock::new() }; CHUNK]));
        if let Some(instance) = chunk[at % CHUNK].get() {
            return Ok(instance);
        }
        let instance = self.parts.instance(&stream.device().loader()?)?;
        Ok(chunk[at % CHUNK].get_or_init(|| instance))
    }
}
