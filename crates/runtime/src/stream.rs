use std::fmt;
use std::sync::Arc;

use spyre_flex::{Event, FlexStream, Priority, Ticket};
use spyre_hal::StreamPoint;

use crate::device::CaptureSlot;
use crate::{Device, Error, GraphMemory, StreamId};

/// A queue of Operations for a device: the one way for all of its work.
///
/// Operations of a stream are carried out one after another, those of different streams in any
/// order. Everything but [`synchronize`](Self::synchronize) returns at once.
#[derive(Clone)]
pub struct SpyreStream {
    device: Device,
    id: StreamId,
    flex: Arc<FlexStream>,
}

impl SpyreStream {
    pub(crate) fn new(device: Device, id: StreamId, flex: Arc<FlexStream>) -> Self {
        Self { device, id, flex }
    }

    /// Its number in the device's pool.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The stream of the layer below: copies and launches by handle, events.
    pub fn flex(&self) -> &FlexStream {
        &self.flex
    }

    /// Waits until everything that is queued has ended, and reports the first fault that no call has
    /// reported.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.refuse_in_capture("to wait for the stream")?;
        let ended = self.flex.synchronize();
        if ended.is_err() {
            self.device.settle_ahead(self.id)?;
        }
        Ok(ended?)
    }

    /// Returns true if everything that is queued has ended. Reports the first fault that no call has
    /// reported.
    pub fn query(&self) -> Result<bool, Error> {
        self.refuse_in_capture("to ask whether the stream has ended")?;
        Ok(self.flex.query()?)
    }

    /// Makes an event stand for everything that was queued here so far.
    pub fn record(&self, event: &Event) -> Result<(), Error> {
        self.refuse_in_capture("to record an event")?;
        self.flex.record(event)?;
        Ok(())
    }

    /// Has what is queued from now on wait for what the event stands for now.
    pub fn wait(&self, event: &Event) -> Result<(), Error> {
        self.refuse_in_capture("to wait for an event")?;
        Ok(self.flex.wait(event)?)
    }

    /// Lets the stream go on after a structural fault. What was queued behind it is cancelled.
    pub fn reset(&self) -> Result<(), Error> {
        self.flex.reset()?;
        self.device.settle_ahead(self.id)
    }

    /// Returns true between the begin and the end of a capture.
    #[inline]
    pub fn is_capturing(&self) -> bool {
        self.capture_slot().is_some_and(CaptureSlot::is_on)
    }

    /// Refuses what cannot be noted during a capture.
    #[inline]
    pub(crate) fn refuse_in_capture(&self, what: &'static str) -> Result<(), Error> {
        if self.is_capturing() {
            return Err(Error::InCapture { what, stream: self.id.0 });
        }
        Ok(())
    }

    /// The memory that a capture allocates from.
    #[inline]
    pub(crate) fn graph_memory(&self) -> Option<Arc<GraphMemory>> {
        self.capture_slot()?.memory()
    }

    #[inline]
    pub(crate) fn capture_slot(&self) -> Option<&CaptureSlot> {
        self.device.pool().capture_slot(self.id)
    }

    /// Something to wait for one block with.
    pub fn ticket(&self, point: StreamPoint) -> Ticket {
        self.flex.ticket(point)
    }
}

impl fmt::Debug for SpyreStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpyreStream({} of device {})", self.id.0, self.device.index())
    }
}

impl Device {
    /// Stream 0.
    pub fn default_stream(&self) -> Result<SpyreStream, Error> {
        self.stream_of(StreamId::DEFAULT)
    }

    /// The next stream of the pool: there are 32 of each priority, and they come round again.
    pub fn stream(&self, priority: Priority) -> Result<SpyreStream, Error> {
        self.stream_of(self.pool().next(priority))
    }

    /// The stream of this number.
    pub fn stream_of(&self, id: StreamId) -> Result<SpyreStream, Error> {
        let flex = self.pool().stream(id, self.context())?;
        Ok(SpyreStream::new(self.clone(), id, flex))
    }

    /// The stream that programs are loaded through, so that no fault of another cancels their copies.
    pub(crate) fn loader(&self) -> Result<SpyreStream, Error> {
        let flex = self.pool().loader(self.context())?;
        Ok(SpyreStream::new(self.clone(), StreamId::LOADER, flex))
    }
}
