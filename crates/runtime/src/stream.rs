use std::fmt;
use std::sync::Arc;

use spyre_artifact::ExpectedSize;
use spyre_flex::{Event, FlexStream, Ticket};
use spyre_hal::{DeviceHandle, StreamPoint};
use spyre_layout::{SpyreTensorLayout, View};

use crate::launch::{Arguments, launch};
use crate::{Device, Error, Mode, Operation, SpyreTensor, StreamId};

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

    /// Queues an Operation's blocks, for tensors that measure what it was compiled for.
    ///
    /// An Operation of a plan takes the plan's tensors, all of them. An `Err` means that nothing was
    /// queued.
    pub fn launch(
        &self,
        operation: &Operation,
        tensors: &[SpyreTensor],
    ) -> Result<StreamPoint, Error> {
        self.launch_with(operation, tensors, &[], Mode::Strict)
    }

    /// Queues an Operation's blocks for every tile of tensors that are larger than what it was
    /// compiled for.
    pub fn launch_tiled(
        &self,
        operation: &Operation,
        tensors: &[SpyreTensor],
    ) -> Result<StreamPoint, Error> {
        self.launch_with(operation, tensors, &[], Mode::Tiled)
    }

    /// Queues an Operation's blocks with the scalars that its program is given, for every tile if need be.
    pub fn launch_with(
        &self,
        operation: &Operation,
        tensors: &[SpyreTensor],
        scalars: &[u64],
        mode: Mode,
    ) -> Result<StreamPoint, Error> {
        let arguments = Arguments { tensors, scalars };
        launch(self, std::slice::from_ref(operation), arguments, mode)
    }

    /// Queues an Operation's blocks, for tensors of which only the handles are given: they measure
    /// what it was compiled for, and lie as the compiler expects.
    pub fn launch_handles(
        &self,
        operation: &Operation,
        handles: &[DeviceHandle],
    ) -> Result<StreamPoint, Error> {
        let compute = operation.compute().ok_or(Error::NoCompute)?;
        let tensors: Result<Vec<_>, Error> = compute
            .tensor_metadata()
            .iter()
            .zip(handles)
            .map(|(expected, &handle)| {
                let size = |dim: &spyre_artifact::ExpectedDim| match dim.size {
                    ExpectedSize::Fixed(elements) => Ok(elements.get() as usize),
                    ExpectedSize::Any => Err(Error::NotFixed {
                        operation: compute.name().to_owned(),
                        name: dim.name.clone(),
                    }),
                };
                let shape: Vec<usize> = expected.dims.iter().map(size).collect::<Result<_, _>>()?;
                let layout = SpyreTensorLayout::contiguous(&shape, expected.format)?;
                let view = View::contiguous(&shape)?;
                SpyreTensor::at(&self.device, handle, layout, expected.dtype, view)
            })
            .collect();
        self.launch(operation, &tensors?)
    }

    /// Waits until everything that is queued has ended, and reports the first fault that no call has
    /// reported.
    pub fn synchronize(&self) -> Result<(), Error> {
        let ended = self.flex.synchronize();
        if ended.is_err() {
            self.device.settle_ahead(self.id)?;
        }
        Ok(ended?)
    }

    /// Returns true if everything that is queued has ended. Reports the first fault that no call has
    /// reported.
    pub fn query(&self) -> Result<bool, Error> {
        Ok(self.flex.query()?)
    }

    /// Makes an event stand for everything that was queued here so far.
    pub fn record(&self, event: &Event) -> Result<(), Error> {
        self.flex.record(event)?;
        Ok(())
    }

    /// Has what is queued from now on wait for what the event stands for now.
    pub fn wait(&self, event: &Event) -> Result<(), Error> {
        Ok(self.flex.wait(event)?)
    }

    /// Lets the stream go on after a structural fault. What was queued behind it is cancelled.
    pub fn reset(&self) -> Result<(), Error> {
        self.flex.reset()?;
        self.device.settle_ahead(self.id)
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
