use spyre_hal::{DeviceHandle, Location};

use crate::{Device, Error, SpyreStream};

/// A place in device memory that nothing lies in yet. It is freed unless a copy takes it.
#[derive(Debug)]
pub struct LocationInSegment {
    device: Device,
    handle: Option<DeviceHandle>,
    bytes: u64,
}

impl LocationInSegment {
    /// Room for a tensor.
    pub fn allocate(stream: &SpyreStream, bytes: u64) -> Result<Self, Error> {
        let handle = Some(stream.flex().allocate(bytes)?);
        Ok(Self { device: stream.device().clone(), handle, bytes })
    }

    /// Room for a program.
    pub fn allocate_program(stream: &SpyreStream, bytes: u64) -> Result<Self, Error> {
        let handle = Some(stream.flex().allocate_program(bytes)?);
        Ok(Self { device: stream.device().clone(), handle, bytes })
    }

    /// Number of the segment; 0 in PF mode, where each allocation is mapped on its own.
    pub fn segment_id(&self) -> u16 {
        self.handle.map_or(0, segment_id)
    }

    /// Bytes from the start of the segment; 0 and unused in PF mode.
    pub fn vf_offset(&self) -> u64 {
        self.handle.map_or(0, vf_offset)
    }

    /// Bytes that fit there.
    pub fn size_bytes(&self) -> u64 {
        self.bytes
    }

    /// Hands the memory over, for so many bytes of this device.
    pub(crate) fn take(mut self, device: &Device, needed: u64) -> Result<DeviceHandle, Error> {
        if !self.device.is(device) {
            let expected = device.index();
            let given = self.device.index();
            return Err(Error::LocationDevice { expected, given });
        }
        let given = self.bytes;
        match self.handle {
            Some(handle) if needed <= given => {
                self.handle = None;
                Ok(handle)
            }
            _ => Err(Error::LocationBytes { needed, given }),
        }
    }
}

impl Drop for LocationInSegment {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            // After a reset of the card it is gone already.
            let _ = self.device.context().free(handle);
        }
    }
}

pub(crate) fn segment_id(handle: DeviceHandle) -> u16 {
    match handle.location() {
        Location::Pf(_) => 0,
        Location::Vf(place) => place.region_id,
    }
}

pub(crate) fn vf_offset(handle: DeviceHandle) -> u64 {
    match handle.location() {
        Location::Pf(_) => 0,
        Location::Vf(place) => place.vf_offset,
    }
}
