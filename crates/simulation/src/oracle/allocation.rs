use spyre_hal::{DeviceHandle, Location, StreamIndex};

use super::poison::Poison;
use super::window::{WINDOW_BYTES, Window};

/// An allocation: live, or freed and still used by blocks that are queued.
#[derive(Clone, Debug)]
pub(crate) struct Allocation {
    pub(crate) handle: DeviceHandle,
    pub(crate) place: RegionAddress,
    pub(crate) bytes: u64,
    /// The bytes that were asked for: to write these is to write all of it.
    pub(crate) requested: u64,
    pub(crate) window: Window,
    /// The stream that it was allocated for.
    pub(crate) home: StreamIndex,
    /// Up to which block of its home earlier owners of the memory may still touch it.
    pub(crate) behind: u64,
    /// The last block of every stream that names it.
    pub(crate) uses: Vec<(StreamIndex, u64)>,
    pub(super) poison: Poison,
}

/// Start of memory: a region and an offset, in either mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RegionAddress {
    pub(crate) region: u16,
    pub(crate) start: u64,
}

impl Allocation {
    pub(crate) fn new(handle: DeviceHandle, bytes: u64, requested: u64, home: StreamIndex) -> Self {
        let place = RegionAddress::of(handle);
        let window = Window::unknown();
        let uses = Vec::new();
        let poison = Poison::default();
        Self { handle, place, bytes, requested, window, home, behind: 0, uses, poison }
    }

    /// Bytes that blocks are made for.
    pub(crate) fn window_bytes(&self) -> usize {
        WINDOW_BYTES.min(self.bytes as usize)
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let a = self.place;
        let b = other.place;
        a.region == b.region && a.start < b.start + other.bytes && b.start < a.start + self.bytes
    }

    pub(crate) fn note_use(&mut self, stream: StreamIndex, sequence: u64) {
        match self.uses.iter_mut().find(|(known, _)| *known == stream) {
            Some((_, last)) => *last = sequence,
            None => self.uses.push((stream, sequence)),
        }
    }
}

impl RegionAddress {
    pub(crate) fn of(handle: DeviceHandle) -> Self {
        match handle.location() {
            Location::Pf(place) => Self { region: u16::MAX, start: place.physical_address },
            Location::Vf(place) => Self { region: place.region_id, start: place.vf_offset },
        }
    }

    /// The place as one number, for the log.
    pub(crate) fn number(self) -> u64 {
        u64::from(self.region) << 48 | self.start
    }
}
