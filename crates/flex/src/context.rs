use std::sync::Arc;

use spyre_hal::{DeviceHandle, Hardware, PeerMemory, Regions};

use crate::peer::Peer;
use crate::scheduler::{Scheduler, SchedulerSettings};
use crate::stream::table::StreamTable;
use crate::{Env, Error, FlexAllocator, FlexStream, Machine, Priority, Settings, Timelines};

/// An opened card: its memory, its scheduler and its streams.
///
/// When the context and everything made from it is dropped, what is queued still goes on, and then
/// the threads end. Nothing waits for that.
///
/// ```
/// use std::sync::Arc;
/// use spyre_flex::{Context, Priority};
/// use spyre_hal::{DeviceRange, NullCard};
///
/// let context = Context::open(Arc::new(NullCard::new()))?;
/// let stream = context.stream(Priority::Low)?;
/// let program = stream.allocate_program(4096)?;
/// stream.copy_to_device(vec![0; 4096], DeviceRange::start_of(program, 4096))?;
/// stream.launch(program)?;
/// stream.synchronize()?;
/// # Ok::<(), spyre_flex::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Context {
    handle: Arc<Handle>,
}

/// Handle of the users of a card to its scheduler.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) scheduler: Arc<Scheduler>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.scheduler.close();
    }
}

impl Context {
    /// Opens a card as it is usually opened.
    pub fn open(hardware: Arc<dyn Hardware>) -> Result<Self, Error> {
        let machine = Arc::new(Machine::default());
        Self::open_with(hardware, Settings::default(), SchedulerSettings::default(), machine)
    }

    /// Opens a card with settings of one's own, and another clock and other threads if need be.
    pub fn open_with(
        hardware: Arc<dyn Hardware>,
        memory: Settings,
        scheduler: SchedulerSettings,
        env: Arc<dyn Env>,
    ) -> Result<Self, Error> {
        let description = hardware.description();
        tracing::debug!(
            target: "spyre.runtime",
            "a card is opened: {}, engines: {}, memory: {:?}, policy: {:?}",
            description.name, description.engines, hardware.mode(), scheduler.policy
        );
        let table = Arc::new(StreamTable::new());
        let regions: Arc<dyn Regions> = Arc::clone(&hardware) as Arc<dyn Regions>;
        let timelines = Arc::clone(&table) as Arc<dyn Timelines>;
        let allocator = Arc::new(FlexAllocator::new(regions, timelines, memory));
        let scheduler = Scheduler::start(hardware, allocator, table, env, scheduler);
        Ok(Self { handle: Arc::new(Handle { scheduler }) })
    }

    /// A new stream.
    pub fn stream(&self, priority: Priority) -> Result<FlexStream, Error> {
        FlexStream::open(&self.handle, priority)
    }

    /// The scheduler.
    pub fn scheduler(&self) -> &Scheduler {
        &self.handle.scheduler
    }

    /// The memory.
    pub fn allocator(&self) -> &FlexAllocator {
        self.handle.scheduler.allocator()
    }

    /// The device.
    pub fn hardware(&self) -> &Arc<dyn Hardware> {
        self.handle.scheduler.hardware()
    }

    /// The card as others copy to it.
    pub(crate) fn as_peer(&self) -> Arc<dyn PeerMemory> {
        let scheduler = &self.handle.scheduler;
        Arc::new(Peer::new(Arc::clone(scheduler.hardware()), Arc::clone(scheduler.allocator())))
    }

    /// Gives an allocation back. Blocks that are queued may still use it.
    pub fn free(&self, handle: DeviceHandle) -> Result<(), Error> {
        self.handle.scheduler.check_process()?;
        self.allocator().free(handle)
    }

    /// Waits until everything on every stream has ended, and reports the first fault it finds. The
    /// next calls report the others.
    pub fn synchronize(&self) -> Result<(), Error> {
        let scheduler = &self.handle.scheduler;
        scheduler.check_process()?;
        let lanes = scheduler.lanes();
        lanes.iter().try_for_each(|lane| scheduler.wait(lane, lane.ring.reserved()))?;
        lanes.iter().try_for_each(|lane| scheduler.raise(lane))
    }

    /// Waits until everything on every stream has ended, and reports no fault.
    pub fn drain(&self) -> Result<(), Error> {
        self.handle.scheduler.check_process()?;
        self.handle.scheduler.drain()
    }

    /// Starts the device anew, after it was lost or for its own sake. Everything that is queued or
    /// running is cancelled; all memory is gone, and handles from before are refused.
    pub fn reset(&self) -> Result<(), Error> {
        self.handle.scheduler.reset()
    }
}
