mod device_sticks;
mod mapping;
mod window;

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use parking_lot::RwLock;
use spyre_hal::{DeviceRange, Fault, Location, MemoryMode, Region, RegionId, Regions};

pub(crate) use device_sticks::DeviceSticks;
use mapping::Mapping;
pub(crate) use window::{MemorySlice, Way, Window};

/// Device memory: regions of the host's, each mapped on its own when it is acquired.
///
/// An access is checked against its region and the region's end. Addresses are logical: a region's
/// place in the card's range, wherever the host has put it.
pub(crate) struct Memory {
    mode: MemoryMode,
    region_bytes: u64,
    /// Address of the first region, in PF mode.
    base_address: u64,
    is_guarded: bool,
    regions: RwLock<Vec<Option<Arc<Mapping>>>>,
}

/// A byte of a region that may be held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RegionAddress {
    pub(crate) region: u16,
    /// Bytes before it in the region.
    pub(crate) start: u64,
}

/// Most bytes of a region: the last of 65536 such regions still has an address.
const MOST_REGION_BYTES: u64 = 1 << 46;

/// Alignment of a region's start: a page of the host.
const ALIGNMENT_BYTES: u64 = 4096;

impl Memory {
    /// Up to so many regions at a time, each of up to so many bytes.
    pub(crate) fn new(mode: MemoryMode, regions: u16, region_bytes: u64) -> Self {
        Self {
            mode,
            region_bytes: region_bytes.min(MOST_REGION_BYTES),
            base_address: random_base_address(),
            is_guarded: false,
            regions: RwLock::new(vec![None; usize::from(regions)]),
        }
    }

    /// Sets the number of regions and the bytes of each; none is held.
    pub(crate) fn with_regions(self, regions: u16, region_bytes: u64) -> Self {
        let Self { base_address, is_guarded, .. } = self;
        Self { base_address, is_guarded, ..Self::new(self.mode, regions, region_bytes) }
    }

    pub(crate) fn with_base_address(self, base_address: u64) -> Self {
        let most = u64::MAX >> 1;
        Self { base_address: base_address.min(most) / ALIGNMENT_BYTES * ALIGNMENT_BYTES, ..self }
    }

    /// Puts the memory out of reach except while a window is open.
    pub(crate) fn guarded(self) -> Self {
        Self { is_guarded: true, ..self }
    }

    /// The bytes of a range, for as long as one block needs them.
    pub(crate) fn window(&self, range: DeviceRange) -> Result<Window, Fault> {
        self.find(range).ok_or(Fault::IllegalAccess { range })
    }

    /// All bytes of a region.
    pub(crate) fn region(&self, region: u16) -> Option<Window> {
        let mapping = self.regions.read().get(usize::from(region))?.clone()?;
        let bytes = mapping.bytes();
        Window::open(mapping, 0, bytes)
    }

    /// Host address of a range; none for memory that is guarded.
    pub(crate) fn host_address(&self, range: DeviceRange) -> Option<usize> {
        let window = if self.is_guarded { None } else { self.find(range) };
        window.map(|window| window.host_address())
    }

    /// Gives all regions back; what they held is gone.
    pub(crate) fn release_all(&self) {
        let released: Vec<_> = self.regions.write().iter_mut().map(Option::take).collect();
        drop(released);
    }

    /// Address at which a range starts; the region need not be held, nor reach so far.
    pub(crate) fn place(&self, range: &DeviceRange) -> Result<RegionAddress, Fault> {
        self.find_place(range).ok_or(Fault::IllegalAccess { range: *range })
    }

    fn find(&self, range: DeviceRange) -> Option<Window> {
        let RegionAddress { region, start } = self.find_place(&range)?;
        let mapping = self.regions.read().get(usize::from(region))?.clone()?;
        Window::open(mapping, start, range.bytes)
    }

    fn find_place(&self, range: &DeviceRange) -> Option<RegionAddress> {
        match (range.handle.location(), self.mode) {
            (Location::Vf(place), MemoryMode::Vf) => {
                let start = place.vf_offset.checked_add(range.offset)?;
                Some(RegionAddress { region: place.region_id, start })
            }
            (Location::Pf(place), MemoryMode::Pf) => {
                let past_first = place.physical_address.checked_sub(self.base_address)?;
                let region = past_first / self.spacing_bytes();
                let start = (past_first % self.spacing_bytes()).checked_add(range.offset)?;
                Some(RegionAddress { region: u16::try_from(region).ok()?, start })
            }
            _ => None,
        }
    }

    /// Distance from the start of one region to the next.
    fn spacing_bytes(&self) -> u64 {
        self.region_bytes.max(1).next_multiple_of(ALIGNMENT_BYTES)
    }

    fn held(&self, region: RegionId) -> Option<Arc<Mapping>> {
        self.regions.read().get(usize::from(region.0))?.clone()
    }
}

impl Regions for Memory {
    fn mode(&self) -> MemoryMode {
        self.mode
    }

    fn try_allocate(&self, bytes: u64) -> Option<Region> {
        if bytes > self.region_bytes {
            return None;
        }
        let mut regions = self.regions.write();
        let slot = regions.iter().position(Option::is_none)?;
        regions[slot] = Some(Arc::new(Mapping::new(bytes, self.is_guarded)?));
        let base_address = self.base_address + slot as u64 * self.spacing_bytes();
        Some(Region { id: RegionId(slot as u16), base_address, bytes })
    }

    /// A block that runs keeps what it uses until it has ended.
    fn release(&self, region: RegionId) {
        let released = self.regions.write().get_mut(usize::from(region.0)).and_then(Option::take);
        drop(released);
    }

    fn discard(&self, region: RegionId, offset_bytes: u64, bytes: u64) {
        if let Some(mapping) = self.held(region) {
            mapping.discard(offset_bytes, bytes);
        }
    }
}

/// Says nothing of addresses: in VF mode, no caller is to know them.
impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let regions = self.regions.read();
        let held = regions.iter().flatten().count();
        write!(f, "Memory({:?}, {held} of {} regions held)", self.mode, regions.len())
    }
}

/// Some whole number of gigabytes that differs from card to card, so that no caller relies on it. It lies
/// below all that Linux gives a program, and never is an address of the host's.
fn random_base_address() -> u64 {
    let random = RandomState::new().build_hasher().finish();
    (1 << 40) + ((random % (1 << 13)) << 30)
}

#[cfg(test)]
mod tests;
