use spyre_hal::{ControlBlock, DeviceRange, Fault, Location, MemoryMode, Region, RegionId};

/// Bytes that are spoilt at each end of what is discarded.
const SPOILT_BYTES: usize = 4096;

/// The simulated card's memory: plain bytes, by region.
#[derive(Debug)]
pub(crate) struct CardMemory {
    mode: MemoryMode,
    spacing_bytes: u64,
    regions: Vec<Option<Vec<u8>>>,
}

impl CardMemory {
    pub(crate) fn new(mode: MemoryMode, regions: u16, region_bytes: u64) -> Self {
        let regions = (0..regions).map(|_| None).collect();
        Self { mode, spacing_bytes: region_bytes, regions }
    }

    pub(crate) fn try_allocate(&mut self, bytes: u64) -> Option<Region> {
        let at = self.regions.iter().position(Option::is_none)?;
        if bytes > self.spacing_bytes {
            return None;
        }
        self.regions[at] = Some(vec![0; bytes as usize]);
        let base_address = (at as u64 + 1) * self.spacing_bytes;
        Some(Region { id: RegionId(at as u16), base_address, bytes })
    }

    pub(crate) fn release(&mut self, region: RegionId) {
        self.regions[usize::from(region.0)] = None;
    }

    pub(crate) fn release_all(&mut self) {
        self.regions.fill(None);
    }

    /// Overwrites both ends of discarded bytes: the oracle notices a block that still reads them.
    pub(crate) fn discard(&mut self, region: RegionId, offset: u64, bytes: u64) {
        let Some(region) = &mut self.regions[usize::from(region.0)] else { return };
        let discarded = &mut region[offset as usize..(offset + bytes) as usize];
        let spoilt = discarded.len().min(SPOILT_BYTES);
        discarded[..spoilt].fill(0xdd);
        let start = discarded.len() - spoilt;
        discarded[start..].fill(0xdd);
    }

    pub(crate) fn bytes(&mut self, range: DeviceRange) -> Result<&mut [u8], Fault> {
        let (region, start) = self.place(range);
        let bytes = self.regions.get_mut(region).and_then(Option::as_mut);
        let range_of = start..start.saturating_add(range.bytes as usize);
        bytes.and_then(|bytes| bytes.get_mut(range_of)).ok_or(Fault::IllegalAccess { range })
    }

    /// Carries a block out, or the first half of it, and returns what it read.
    pub(crate) fn carry_out(
        &mut self,
        block: &mut ControlBlock,
        is_half: bool,
    ) -> Result<Vec<u8>, Fault> {
        let share = |bytes: u64| if is_half { bytes / 2 } else { bytes } as usize;
        match block {
            ControlBlock::CopyToDevice(copy) => {
                let bytes = &copy.source.bytes()[..share(copy.target.bytes)];
                self.bytes(copy.target)?[..bytes.len()].copy_from_slice(bytes);
            }
            ControlBlock::CopyStaged(copy) => {
                let bytes = &copy.bytes()[..share(copy.target().bytes)];
                self.bytes(copy.target())?[..bytes.len()].copy_from_slice(bytes);
            }
            ControlBlock::CopyFromDevice(copy) => {
                let seen = self.bytes(copy.source)?.to_vec();
                let half = share(copy.source.bytes);
                copy.target.bytes_mut()[..half].copy_from_slice(&seen[..half]);
                return Ok(seen);
            }
            ControlBlock::CopyDevice(copy) => {
                let seen = self.bytes(copy.source)?.to_vec();
                let half = share(copy.source.bytes);
                self.bytes(copy.target)?[..half].copy_from_slice(&seen[..half]);
                return Ok(seen);
            }
            ControlBlock::Fill { pattern, target } => {
                let half = share(target.bytes);
                pattern.fill(&mut self.bytes(*target)?[..half]);
            }
            ControlBlock::Launch { program, .. } => {
                let word = self.bytes(DeviceRange::start_of(*program, 8))?;
                let seen = word.to_vec();
                if !is_half {
                    let count = u64::from_le_bytes(seen[..].try_into().expect("eight bytes"));
                    word.copy_from_slice(&count.wrapping_add(1).to_le_bytes());
                }
                return Ok(seen);
            }
            _ => {}
        }
        Ok(Vec::new())
    }

    /// Changes a byte that a block has just touched.
    pub(crate) fn spoil(&mut self, block: &ControlBlock) {
        for range in block.ranges().into_iter().flatten().filter(|range| range.bytes > 0) {
            if let Ok([byte, ..]) = self.bytes(range) {
                *byte ^= 1;
            }
        }
    }

    fn place(&self, range: DeviceRange) -> (usize, usize) {
        let (region, start) = match (range.handle.location(), self.mode) {
            (Location::Vf(place), MemoryMode::Vf) => (u64::from(place.region_id), place.vf_offset),
            (Location::Pf(place), MemoryMode::Pf) => {
                let address = place.physical_address;
                ((address / self.spacing_bytes).wrapping_sub(1), address % self.spacing_bytes)
            }
            _ => (u64::MAX, 0),
        };
        (region as usize, (start + range.offset) as usize)
    }
}
