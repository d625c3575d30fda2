mod capture_slot;
mod stream_pool;

use std::fmt;
use std::sync::Arc;

use spyre_flex::{Context, FlexStream, Machine, SchedulerSettings, Settings};
use spyre_hal::{Hardware, StreamIndex};
use spyre_numerics::Profile;

pub(crate) use capture_slot::CaptureSlot;
pub use stream_pool::StreamId;

use crate::{Error, SpyreAllocator};
use stream_pool::StreamPool;

/// An opened card: its memory, and a pool of streams.
///
/// ```
/// use std::sync::Arc;
/// use spyre_hal::NullCard;
/// use spyre_runtime::{Device, Priority};
///
/// let device = Device::open(Arc::new(NullCard::new()))?;
/// assert_eq!(device.default_stream()?.id().0, 0);
/// assert_eq!(device.stream(Priority::Low)?.id().0, 1);
/// assert_eq!(device.stream(Priority::High)?.id().0, 33);
/// # Ok::<(), spyre_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    shared: Arc<Shared>,
}

/// Number of a device in its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceIndex(pub u16);

/// Settings that a device is opened with.
#[derive(Clone, Debug, Default)]
pub struct DeviceSettings {
    /// Number of the device in the process.
    pub index: DeviceIndex,
    /// Number formats that it keeps.
    pub profile: Profile,
    /// Settings of its allocator.
    pub memory: Settings,
    /// Settings of its scheduler.
    pub scheduler: SchedulerSettings,
    /// True if launches wait until they are done, so that the call that caused a fault reports it.
    pub launches_wait: bool,
}

struct Shared {
    index: DeviceIndex,
    profile: Profile,
    launches_wait: bool,
    pool: StreamPool,
    context: Context,
}

impl Device {
    /// Opens a card as it is usually opened.
    pub fn open(hardware: Arc<dyn Hardware>) -> Result<Self, Error> {
        Self::open_with(hardware, DeviceSettings::default())
    }

    /// Opens a card with settings of one's own.
    pub fn open_with(hardware: Arc<dyn Hardware>, settings: DeviceSettings) -> Result<Self, Error> {
        let DeviceSettings { index, profile, memory, scheduler, launches_wait } = settings;
        let machine = Arc::new(Machine::default());
        let context = Context::open_with(hardware, memory, scheduler, machine)?;
        let pool = StreamPool::default();
        let shared = Shared { index, profile, launches_wait, pool, context };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Number of the device in the process.
    pub fn index(&self) -> DeviceIndex {
        self.shared.index
    }

    /// Number formats that it keeps.
    pub fn profile(&self) -> Profile {
        self.shared.profile
    }

    /// The card's memory.
    pub fn allocator(&self) -> &SpyreAllocator {
        self.context().allocator()
    }

    /// The layer below: memory, scheduler, streams.
    pub fn context(&self) -> &Context {
        &self.shared.context
    }

    pub(crate) fn pool(&self) -> &StreamPool {
        &self.shared.pool
    }

    /// The number of the stream that blocks and records know by its place in the scheduler.
    pub fn stream_id(&self, index: StreamIndex) -> Option<StreamId> {
        self.shared.pool.id_of(index)
    }

    /// The stream that copies ahead for another one, on a device with an engine to spare for it.
    pub(crate) fn ahead(&self, id: StreamId) -> Result<Option<Arc<FlexStream>>, Error> {
        if self.context().hardware().description().engines < 2 {
            return Ok(None);
        }
        self.shared.pool.settle_ahead(id)?;
        self.shared.pool.ahead(id, self.context())
    }

    /// Lets the stream that copies ahead for another one go on after a fault of that one.
    pub(crate) fn settle_ahead(&self, id: StreamId) -> Result<(), Error> {
        self.shared.pool.settle_ahead(id)
    }

    /// Waits until everything on every stream has ended, and tells the first fault it finds.
    pub fn synchronize(&self) -> Result<(), Error> {
        if self.shared.pool.copies_ahead() {
            self.drain()?;
            self.shared.pool.settle_all_ahead()?;
        }
        Ok(self.context().synchronize()?)
    }

    /// Waits until everything on every stream has ended. Faults are left to those who ask for them.
    pub fn drain(&self) -> Result<(), Error> {
        Ok(self.context().drain()?)
    }

    /// Starts the card anew. Everything that is queued is cancelled; all tensors and plans on it are
    /// gone, and what still names them is refused.
    pub fn reset(&self) -> Result<(), Error> {
        Ok(self.context().reset()?)
    }

    pub(crate) fn launches_wait(&self) -> bool {
        self.shared.launches_wait
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

/// Its number only: everything on a device leads to it, and a text of all that it holds helps no reader.
impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.shared.index)
    }
}

impl fmt::Display for DeviceIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
