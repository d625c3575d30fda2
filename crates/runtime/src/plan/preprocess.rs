use std::sync::Arc;

use spyre_hal::{DeviceHandle, DeviceRange, HostBuffer};
use spyre_layout::DmaNest;

/// A step that runs before an Operation's compute: one control block.
#[derive(Clone, Debug)]
pub enum PreProcessCompute {
    /// Host memory to device memory: tensors, binaries, correction inputs.
    CopyToDevice {
        /// Source of the copy.
        host_address: HostAddress,
        /// Target of the copy.
        device_handle: DevicePlace,
        /// Device bytes.
        size: u64,
    },
    /// Device memory to host memory.
    CopyFromDevice {
        /// Target of the copy.
        host_address: HostAddress,
        /// Source of the copy.
        device_handle: DevicePlace,
        /// Device bytes.
        size: u64,
    },
    /// A binary that lies in device memory, such as a correction program.
    DeviceLaunch {
        /// Place of the binary.
        device_handle: DevicePlace,
    },
}

/// The host's side of a copy.
#[derive(Clone, Debug)]
pub enum HostAddress {
    /// Bytes as they are.
    Buffer(HostBuffer),
    /// Elements that are permuted and converted on the way.
    Nested {
        /// The bytes.
        buffer: HostBuffer,
        /// Order and conversion of the elements.
        nest: Arc<DmaNest>,
    },
    /// Words that describe the tensors to the Operation's correction: assembled at each launch.
    CorrectionInputs,
}

/// The device's side of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DevicePlace {
    /// This memory, from an offset.
    At {
        /// The allocation.
        handle: DeviceHandle,
        /// Bytes from its start.
        offset: u64,
    },
    /// The correction binary of the Operation's compute, of which every stream has one; for copies,
    /// its input area.
    Correction,
}

impl PreProcessCompute {
    /// A copy of all of `target`.
    pub fn copy_to_device(host_address: HostAddress, target: DeviceRange) -> Self {
        let DeviceRange { handle, offset, bytes: size } = target;
        Self::CopyToDevice { host_address, device_handle: DevicePlace::At { handle, offset }, size }
    }

    /// A copy of all of `source`.
    pub fn copy_from_device(host_address: HostAddress, source: DeviceRange) -> Self {
        let DeviceRange { handle, offset, bytes: size } = source;
        let device_handle = DevicePlace::At { handle, offset };
        Self::CopyFromDevice { host_address, device_handle, size }
    }

    /// A launch of the binary at a handle.
    pub fn device_launch(handle: DeviceHandle) -> Self {
        Self::DeviceLaunch { device_handle: DevicePlace::At { handle, offset: 0 } }
    }

    /// The two steps of a program correction: its inputs, so many bytes, and the correction itself.
    pub fn correction(input_bytes: u64) -> [Self; 2] {
        let device_handle = DevicePlace::Correction;
        let host_address = HostAddress::CorrectionInputs;
        [
            Self::CopyToDevice { host_address, device_handle, size: input_bytes },
            Self::DeviceLaunch { device_handle },
        ]
    }
}

impl HostAddress {
    /// The bytes and the nest of a copy; `None` for correction inputs.
    pub(crate) fn parts(&self) -> Option<(&HostBuffer, Option<&Arc<DmaNest>>)> {
        match self {
            Self::Buffer(buffer) => Some((buffer, None)),
            Self::Nested { buffer, nest } => Some((buffer, Some(nest))),
            Self::CorrectionInputs => None,
        }
    }
}
