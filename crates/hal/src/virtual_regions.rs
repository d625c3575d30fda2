use parking_lot::Mutex;

use crate::{MemoryMode, Region, RegionId, Regions};

/// Regions of a card in VF mode that exist only as numbers: what the null card has.
#[derive(Debug)]
pub struct VirtualRegions {
    region_bytes: u64,
    taken: Mutex<Vec<bool>>,
}

impl VirtualRegions {
    /// A card with so many regions of so many bytes.
    pub fn new(regions: u16, region_bytes: u64) -> Self {
        Self { region_bytes, taken: Mutex::new(vec![false; usize::from(regions)]) }
    }

    /// Gives all of them back.
    pub fn release_all(&self) {
        self.taken.lock().fill(false);
    }
}

impl Regions for VirtualRegions {
    fn mode(&self) -> MemoryMode {
        MemoryMode::Vf
    }

    fn try_allocate(&self, bytes: u64) -> Option<Region> {
        let mut taken = self.taken.lock();
        let at = taken.iter().position(|taken| !taken)?;
        if bytes > self.region_bytes {
            return None;
        }
        taken[at] = true;
        Some(Region { id: RegionId(at as u16), base_address: at as u64 * self.region_bytes, bytes })
    }

    fn release(&self, region: RegionId) {
        self.taken.lock()[usize::from(region.0)] = false;
    }
}
