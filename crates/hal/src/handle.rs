use std::fmt;

/// A place in device memory where every allocation is mapped on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PFDeviceHandle {
    /// The address on the device.
    pub physical_address: u64,
}

/// A place in one of a few large regions: no physical address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VFDeviceHandle {
    /// Index of the region.
    pub region_id: u16,
    /// Bytes from its start.
    pub vf_offset: u64,
}

/// Place that a handle points to, by the mode of its card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// Physical function.
    Pf(PFDeviceHandle),
    /// Virtual function.
    Vf(VFDeviceHandle),
}

/// Tag that tells a live handle from a stale, foreign or freed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandleTag {
    /// Life of the card: a reset starts a new one.
    pub epoch: u16,
    /// Use of the slot: each has a number of its own.
    pub generation: u32,
    /// Slot in which the allocator keeps its record.
    pub slot: u32,
}

/// An opaque reference to a location in device memory; sizes are kept beside it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceHandle {
    /// The physical address, or the offset in the region.
    address: u64,
    generation: u32,
    slot: u32,
    epoch: u16,
    region: Option<u16>,
}

impl DeviceHandle {
    /// A handle of a card in PF mode.
    pub fn pf(place: PFDeviceHandle, tag: HandleTag) -> Self {
        Self::new(place.physical_address, None, tag)
    }

    /// A handle of a card in VF mode.
    pub fn vf(place: VFDeviceHandle, tag: HandleTag) -> Self {
        Self::new(place.vf_offset, Some(place.region_id), tag)
    }

    /// Place that it points to.
    pub fn location(&self) -> Location {
        match self.region {
            None => Location::Pf(PFDeviceHandle { physical_address: self.address }),
            Some(region_id) => Location::Vf(VFDeviceHandle { region_id, vf_offset: self.address }),
        }
    }

    /// Tag by which it is checked.
    #[inline]
    pub fn tag(&self) -> HandleTag {
        HandleTag { epoch: self.epoch, generation: self.generation, slot: self.slot }
    }

    fn new(address: u64, region: Option<u16>, tag: HandleTag) -> Self {
        let HandleTag { epoch, generation, slot } = tag;
        Self { address, generation, slot, epoch, region }
    }
}

impl fmt::Display for DeviceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.location() {
            Location::Pf(place) => write!(f, "pf:{:#x}", place.physical_address),
            Location::Vf(place) => write!(f, "vf:{}+{:#x}", place.region_id, place.vf_offset),
        }
    }
}

impl fmt::Debug for DeviceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceHandle({self}, epoch {}, generation {})", self.epoch, self.generation)
    }
}
