use spyre_hal::Region;

/// The regions that an allocator holds. Their indices stay, whichever others come and go.
#[derive(Debug, Default)]
pub(super) struct RegionTable {
    regions: Vec<Region>,
    /// Indices of regions that were given back, for the next ones.
    vacant: Vec<u16>,
    bytes: u64,
}

impl RegionTable {
    /// Region at this index. There must be one.
    #[inline]
    pub(super) fn region(&self, index: u16) -> Region {
        debug_assert!(!self.vacant.contains(&index), "region {index} was given back");
        self.regions[usize::from(index)]
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = Region> + '_ {
        let regions = self.regions.iter().zip(0..);
        regions.filter(|(_, index)| !self.vacant.contains(index)).map(|(&region, _)| region)
    }

    /// Their bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Keeps a region and says at which index.
    pub(super) fn add(&mut self, region: Region) -> u16 {
        self.bytes += region.bytes;
        if let Some(index) = self.vacant.pop() {
            self.regions[usize::from(index)] = region;
            return index;
        }
        self.regions.push(region);
        (self.regions.len() - 1) as u16
    }

    /// Takes the region at this index out.
    pub(super) fn remove(&mut self, index: u16) -> Region {
        let region = self.region(index);
        self.bytes -= region.bytes;
        self.vacant.push(index);
        region
    }
}
