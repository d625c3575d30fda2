use spyre_flex::LastUse;
use spyre_hal::{DeviceHandle, DeviceRange, HostBuffer, StreamPoint};

use crate::blocking::LocationInSegment;
use crate::{Device, Error, HostAddress, PreProcessCompute, SpyreStream};

/// A program image in device memory of its own.
#[derive(Debug)]
pub(crate) struct Binary {
    device: Device,
    handle: DeviceHandle,
    bytes: u64,
}

impl Binary {
    /// Copies an image to new memory of `bytes` bytes, through the stream.
    pub(crate) fn load(stream: &SpyreStream, image: Vec<u8>, bytes: u64) -> Result<Self, Error> {
        let handle = stream.flex().allocate_program(bytes)?;
        let binary = Self { device: stream.device().clone(), handle, bytes };
        binary.write(stream, 0, image)?;
        Ok(binary)
    }

    /// Copies an image to memory that is there, through the stream.
    pub(crate) fn load_at(
        stream: &SpyreStream,
        image: Vec<u8>,
        location: LocationInSegment,
    ) -> Result<Self, Error> {
        let bytes = image.len() as u64;
        let handle = location.take(stream.device(), bytes)?;
        let binary = Self { device: stream.device().clone(), handle, bytes };
        binary.write(stream, 0, image)?;
        Ok(binary)
    }

    /// Overwrites a part of it.
    pub(crate) fn write(
        &self,
        stream: &SpyreStream,
        offset: u64,
        bytes: Vec<u8>,
    ) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        let target = DeviceRange { handle: self.handle, offset, bytes: bytes.len() as u64 };
        let source = HostAddress::Buffer(HostBuffer::from(bytes));
        let copy = PreProcessCompute::copy_to_device(source, target);
        stream.launch_step(copy)?;
        Ok(())
    }

    /// Notes that launches up to this one use it, though their blocks do not name it.
    pub(crate) fn note_use(&self, last: StreamPoint) {
        note_use(&self.device, self.handle, last);
    }

    pub(crate) fn handle(&self) -> DeviceHandle {
        self.handle
    }

    /// Returns true if it is still there: a reset takes it away.
    pub(crate) fn is_live(&self) -> bool {
        self.device.allocator().check(self.handle, 0, self.bytes).is_ok()
    }
}

impl Drop for Binary {
    fn drop(&mut self) {
        // After a reset of the card it is gone already.
        let _ = self.device.context().free(self.handle);
    }
}

/// Before memory is freed: it may be used up to a block that does not name it.
pub(crate) fn note_use(device: &Device, handle: DeviceHandle, last: StreamPoint) {
    let StreamPoint { stream, sequence } = last;
    // After a reset of the card it is gone, and so are the launches that used it.
    let _ = device.allocator().record_use(handle, LastUse { stream, sequence });
}
