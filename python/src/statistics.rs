use parking_lot::Mutex;

use spyre::runtime::Device;

/// What a card's tensors take, as PyTorch counts it.
#[derive(Debug, Default)]
pub(crate) struct MemoryStatistics {
    counts: Mutex<Counts>,
}

/// A number, its largest value, and what was ever added and taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Stat {
    pub(crate) current: i64,
    pub(crate) peak: i64,
    pub(crate) allocated: i64,
    pub(crate) freed: i64,
}

/// `SpyreStats` in `csrc/spyre.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Counts {
    pub(crate) allocation: Stat,
    pub(crate) allocated_bytes: Stat,
    pub(crate) requested_bytes: Stat,
    pub(crate) reserved_bytes: Stat,
    pub(crate) segment: Stat,
    pub(crate) inactive_bytes: i64,
    pub(crate) inactive_blocks: i64,
    pub(crate) retries: i64,
    pub(crate) ooms: i64,
}

impl Stat {
    #[inline]
    fn add(&mut self, count: i64) {
        self.current += count;
        self.allocated += count;
        self.peak = self.peak.max(self.current);
    }

    #[inline]
    fn take(&mut self, count: i64) {
        self.current -= count;
        self.freed += count;
    }

    /// Follows a number that somebody else counts.
    fn follow(&mut self, count: i64) {
        match count - self.current {
            more @ 1.. => self.add(more),
            less => self.take(-less),
        }
    }
}

impl MemoryStatistics {
    #[inline]
    pub(crate) fn allocate(&self, device_bytes: u64, host_bytes: u64) {
        let counts = &mut *self.counts.lock();
        counts.allocation.add(1);
        counts.allocated_bytes.add(device_bytes as i64);
        counts.requested_bytes.add(host_bytes as i64);
    }

    #[inline]
    pub(crate) fn free(&self, device_bytes: u64, host_bytes: u64) {
        let counts = &mut *self.counts.lock();
        counts.allocation.take(1);
        counts.allocated_bytes.take(device_bytes as i64);
        counts.requested_bytes.take(host_bytes as i64);
    }

    pub(crate) fn note_out_of_memory(&self) {
        let counts = &mut *self.counts.lock();
        counts.ooms += 1;
        counts.retries += 1;
    }

    /// All of it. What the card's allocator holds is what is given out and what it keeps.
    pub(crate) fn counts(&self, device: &Device) -> Counts {
        let memory = device.allocator().statistics();
        let counts = &mut *self.counts.lock();
        counts.reserved_bytes.follow((memory.allocated_bytes + memory.cached_bytes) as i64);
        counts.reserved_bytes.peak = counts.reserved_bytes.peak.max(counts.allocated_bytes.peak);
        counts.segment.follow(i64::from(memory.reserved_bytes > 0));
        counts.inactive_bytes = memory.cached_bytes as i64;
        *counts
    }

    pub(crate) fn reset_peaks(&self) {
        self.each(|stat| stat.peak = stat.current);
    }

    pub(crate) fn reset_totals(&self) {
        self.each(|stat| (stat.allocated, stat.freed) = (0, 0));
        let counts = &mut *self.counts.lock();
        (counts.ooms, counts.retries) = (0, 0);
    }

    fn each(&self, change: impl Fn(&mut Stat)) {
        let counts = &mut *self.counts.lock();
        let stats = [
            &mut counts.allocation,
            &mut counts.allocated_bytes,
            &mut counts.requested_bytes,
            &mut counts.reserved_bytes,
            &mut counts.segment,
        ];
        stats.into_iter().for_each(change);
    }
}
