use spyre_artifact::{HandleWords, OPERAND_WORDS, OperandWords};
use spyre_hal::{DeviceHandle, DeviceRange};
use spyre_layout::SpyreTensorLayout;

use crate::{Device, Error, SpyreStream};

/// Device memory that tensors look at, with the layout that its elements have.
#[derive(Debug)]
pub(crate) struct Storage {
    device: Device,
    range: DeviceRange,
    layout: SpyreTensorLayout,
    /// Words of an operand, except for offset and strides.
    words: [u64; OPERAND_WORDS],
    is_owned: bool,
}

impl Storage {
    /// New memory, for use on `stream` first.
    pub(crate) fn allocate(stream: &SpyreStream, layout: SpyreTensorLayout) -> Result<Self, Error> {
        // Found out before there is anything to give back.
        OperandWords::of_layout(HandleWords::NONE, 0, &layout)?;
        let handle = stream.flex().allocate(layout.device_bytes() as u64)?;
        Self::of(stream.device(), handle, layout, true)
    }

    /// Memory that another object owns.
    pub(crate) fn borrowed(
        device: &Device,
        handle: DeviceHandle,
        layout: SpyreTensorLayout,
    ) -> Result<Self, Error> {
        Self::of(device, handle, layout, false)
    }

    /// Memory that was allocated for it.
    pub(crate) fn owned(
        device: &Device,
        handle: DeviceHandle,
        layout: SpyreTensorLayout,
    ) -> Result<Self, Error> {
        Self::of(device, handle, layout, true)
    }

    fn of(
        device: &Device,
        handle: DeviceHandle,
        layout: SpyreTensorLayout,
        is_owned: bool,
    ) -> Result<Self, Error> {
        let limit_bytes = layout.device_bytes() as u64;
        let name = HandleWords(handle.to_words());
        let words = OperandWords::of_layout(name, limit_bytes, &layout)?.encode();
        let range = DeviceRange::start_of(handle, limit_bytes);
        Ok(Self { device: device.clone(), range, layout, words, is_owned })
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn handle(&self) -> DeviceHandle {
        self.range.handle
    }

    pub(crate) fn layout(&self) -> &SpyreTensorLayout {
        &self.layout
    }

    pub(crate) fn words(&self) -> &[u64; OPERAND_WORDS] {
        &self.words
    }

    pub(crate) fn range(&self) -> DeviceRange {
        self.range
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if self.is_owned {
            // After a reset of the card it is gone already.
            let _ = self.device.context().free(self.range.handle);
        }
    }
}
