mod blocks;
mod pages;

use parking_lot::Mutex;

use crate::{
    DeviceRange, Fault, Location, MemoryMode, Outcome, Pattern, Region, RegionId, Regions,
};
use pages::Pages;

/// Device memory for cards that tests use: plain, safe, and only as large as what was written.
///
/// It knows regions and nothing finer: an access is checked against the end of its region. What
/// was never written, or not since its region was acquired, reads as zero.
///
/// ```
/// use spyre_hal::{
///     DeviceHandle, DeviceMemory, DeviceRange, HandleTag, MemoryMode, Regions, VFDeviceHandle,
/// };
///
/// let memory = DeviceMemory::new(MemoryMode::Vf, 8, 12 << 30);
/// let region = memory.try_allocate(1 << 30).expect("there are eight");
/// let place = VFDeviceHandle { region_id: region.id.0, vf_offset: 4096 };
/// let handle = DeviceHandle::vf(place, HandleTag { epoch: 0, generation: 0, slot: 0 });
/// let range = DeviceRange { handle, offset: 128, bytes: 3 };
/// memory.write(range, &[1, 2, 3])?;
/// assert_eq!(memory.bytes(range)?, [1, 2, 3]);
/// # Ok::<(), spyre_hal::Fault>(())
/// ```
#[derive(Debug)]
pub struct DeviceMemory {
    mode: MemoryMode,
    region_bytes: u64,
    regions: Mutex<Vec<Option<Pages>>>,
}

/// Bytes of the largest region: the last of 65536 such regions still has an address.
const MOST_REGION_BYTES: u64 = 1 << 46;

/// Alignment of the start of a region.
const ALIGNMENT_BYTES: u64 = 128;

/// Bytes that a fill writes at a time: a whole number of every pattern.
const FILL_BYTES: u64 = 12 << 10;

impl DeviceMemory {
    /// Up to so many regions at a time, each of up to so many bytes.
    pub fn new(mode: MemoryMode, regions: u16, region_bytes: u64) -> Self {
        let regions = (0..regions).map(|_| None).collect();
        let region_bytes = region_bytes.min(MOST_REGION_BYTES);
        Self { mode, region_bytes, regions: Mutex::new(regions) }
    }

    /// The bytes of a range.
    pub fn bytes(&self, range: DeviceRange) -> Result<Vec<u8>, Fault> {
        self.access(range, |pages, start| {
            let mut bytes = vec![0; range.bytes as usize];
            pages.read(start, &mut bytes);
            bytes
        })
    }

    /// Reads a range into as many bytes.
    pub fn read(&self, range: DeviceRange, target: &mut [u8]) -> Outcome {
        same_length(range.bytes, target.len() as u64)?;
        self.access(range, |pages, start| pages.read(start, target))
    }

    /// Writes as many bytes to a range.
    pub fn write(&self, range: DeviceRange, source: &[u8]) -> Outcome {
        same_length(source.len() as u64, range.bytes)?;
        self.access(range, |pages, start| pages.write(start, source))
    }

    /// Writes a pattern over a range, again and again.
    pub fn fill(&self, range: DeviceRange, pattern: Pattern) -> Outcome {
        let mut bytes = vec![0; range.bytes.min(FILL_BYTES) as usize];
        pattern.fill(&mut bytes);
        self.access(range, |pages, start| {
            for at in (0..range.bytes).step_by(FILL_BYTES as usize) {
                let piece = FILL_BYTES.min(range.bytes - at) as usize;
                pages.write(start + at, &bytes[..piece]);
            }
        })
    }

    /// Gives all regions back; what they held is gone.
    pub fn release_all(&self) {
        self.regions.lock().fill_with(|| None);
    }

    /// Changes bytes in place. No other thread sees them half done: two nests that interleave in one
    /// range would otherwise undo each other.
    fn update(&self, range: DeviceRange, change: impl FnOnce(&mut [u8]) -> Outcome) -> Outcome {
        self.access(range, |pages, start| {
            let mut bytes = vec![0; range.bytes as usize];
            pages.read(start, &mut bytes);
            change(&mut bytes)?;
            pages.write(start, &bytes);
            Ok(())
        })?
    }

    fn access<T>(
        &self,
        range: DeviceRange,
        act: impl FnOnce(&mut Pages, u64) -> T,
    ) -> Result<T, Fault> {
        let illegal = Fault::IllegalAccess { range };
        let Some((slot, start)) = self.place(range) else { return Err(illegal) };
        let mut regions = self.regions.lock();
        let pages = regions.get_mut(slot).and_then(Option::as_mut);
        match pages.filter(|pages| pages.hold(start, range.bytes)) {
            Some(pages) => Ok(act(pages, start)),
            None => Err(illegal),
        }
    }

    /// The region that a range starts in, and the bytes before it there.
    fn place(&self, range: DeviceRange) -> Option<(usize, u64)> {
        match (range.handle.location(), self.mode) {
            (Location::Vf(place), MemoryMode::Vf) => {
                Some((usize::from(place.region_id), place.vf_offset.checked_add(range.offset)?))
            }
            (Location::Pf(place), MemoryMode::Pf) => {
                let past_first = place.physical_address.checked_sub(self.base_address(0))?;
                let slot = past_first / self.spacing_bytes();
                let start = (past_first % self.spacing_bytes()).checked_add(range.offset)?;
                Some((slot as usize, start))
            }
            _ => None,
        }
    }

    /// Bytes from the start of one region to the next.
    fn spacing_bytes(&self) -> u64 {
        self.region_bytes.max(1).next_multiple_of(ALIGNMENT_BYTES)
    }

    /// No region starts at zero, so that an address is never taken for an offset unnoticed.
    fn base_address(&self, slot: usize) -> u64 {
        (slot as u64 + 1) * self.spacing_bytes()
    }
}

impl Regions for DeviceMemory {
    fn mode(&self) -> MemoryMode {
        self.mode
    }

    fn try_allocate(&self, bytes: u64) -> Option<Region> {
        let mut regions = self.regions.lock();
        let slot = regions.iter().position(Option::is_none)?;
        if bytes > self.region_bytes {
            return None;
        }
        regions[slot] = Some(Pages::new(bytes));
        let id = RegionId(slot as u16);
        Some(Region { id, base_address: self.base_address(slot), bytes })
    }

    fn release(&self, region: RegionId) {
        let released = self.regions.lock().get_mut(usize::from(region.0)).and_then(Option::take);
        drop(released);
    }

    fn discard(&self, region: RegionId, offset_bytes: u64, bytes: u64) {
        let mut regions = self.regions.lock();
        if let Some(pages) = regions.get_mut(usize::from(region.0)).and_then(Option::as_mut) {
            pages.discard(offset_bytes, bytes);
        }
    }
}

fn same_length(source_bytes: u64, target_bytes: u64) -> Outcome {
    if source_bytes == target_bytes {
        return Ok(());
    }
    let why = format!("{source_bytes} bytes do not fill a range of {target_bytes}");
    Err(Fault::CopyFailed { why: why.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceHandle, HandleTag, PFDeviceHandle, VFDeviceHandle};

    const TAG: HandleTag = HandleTag { epoch: 0, generation: 0, slot: 0 };

    fn range(memory: &DeviceMemory, region: Region, offset: u64, bytes: u64) -> DeviceRange {
        let pf = PFDeviceHandle { physical_address: region.base_address };
        let handle = match memory.mode() {
            MemoryMode::Pf => DeviceHandle::pf(pf, TAG),
            MemoryMode::Vf => {
                DeviceHandle::vf(VFDeviceHandle { region_id: region.id.0, vf_offset: 0 }, TAG)
            }
        };
        DeviceRange { handle, offset, bytes }
    }

    #[test]
    fn an_access_outside_its_region_is_illegal_in_both_modes() {
        for mode in [MemoryMode::Pf, MemoryMode::Vf] {
            let memory = DeviceMemory::new(mode, 2, 1000);
            let regions = [memory.try_allocate(1000), memory.try_allocate(10)];
            let [first, second] = regions.map(|region| region.expect("there are two"));
            assert_eq!(memory.write(range(&memory, first, 999, 1), &[1]), Ok(()));
            for (region, offset, bytes) in
                [(first, 1000, 1), (second, 0, 11), (second, u64::MAX, 1), (first, 0, u64::MAX)]
            {
                let range = range(&memory, region, offset, bytes);
                assert_eq!(memory.bytes(range), Err(Fault::IllegalAccess { range }), "{range}");
                assert_eq!(
                    memory.fill(range, Pattern::from(1)),
                    Err(Fault::IllegalAccess { range })
                );
            }
        }
    }

    #[test]
    fn a_handle_of_the_other_mode_is_illegal() {
        let [pf, vf] =
            [MemoryMode::Pf, MemoryMode::Vf].map(|mode| DeviceMemory::new(mode, 1, 4096));
        let region = pf.try_allocate(4096).expect("there is one");
        assert_eq!(vf.try_allocate(4096).map(|region| region.id), Some(region.id));
        assert!(pf.bytes(range(&vf, region, 0, 1)).is_err());
        assert!(vf.bytes(range(&pf, region, 0, 1)).is_err());
    }

    #[test]
    fn a_released_region_is_gone_and_zero_when_it_is_back() {
        let memory = DeviceMemory::new(MemoryMode::Pf, 1, 4096);
        let region = memory.try_allocate(4096).expect("there is one");
        let range = range(&memory, region, 7, 1);
        memory.write(range, &[5]).expect("in bounds");

        memory.release(region.id);
        assert!(memory.bytes(range).is_err());
        memory.release(RegionId(77));
        assert_eq!(memory.try_allocate(4096), Some(region));
        assert_eq!(memory.bytes(range), Ok(vec![0]));
    }

    #[test]
    fn bytes_of_another_count_are_refused() {
        let memory = DeviceMemory::new(MemoryMode::Vf, 1, 4096);
        let region = memory.try_allocate(4096).expect("there is one");
        let fault = memory.write(range(&memory, region, 0, 3), &[1]).expect_err("too few");
        assert_eq!(fault.to_string(), "the copy failed: 1 bytes do not fill a range of 3");
    }

    #[test]
    fn a_long_fill_keeps_its_phase() {
        let memory = DeviceMemory::new(MemoryMode::Vf, 1, 1 << 20);
        let region = memory.try_allocate(1 << 20).expect("there is one");
        let range = range(&memory, region, 5, 100_000);
        memory.fill(range, Pattern::new(&[1, 2, 3]).expect("three bytes")).expect("in bounds");
        let bytes = memory.bytes(range).expect("in bounds");
        assert!(bytes.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 3 + 1));
    }
}
