use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use spyre::runtime::Device;

/// Memory that a card's tensors take, as PyTorch counts it, and its limit.
#[derive(Debug)]
pub(crate) struct MemoryStatistics {
    counts: Mutex<SpyreStats>,
    /// `u64::MAX`: the budget is all that bounds them.
    limit_bytes: AtomicU64,
    /// The bits of a share of the budget.
    fraction: AtomicU64,
}

/// Number of bytes from which on an allocation is counted as large.
const LARGE_BYTES: u64 = 1 << 20;

/// A number, its largest value, and what was ever added and taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SpyreStat {
    pub(crate) current: i64,
    pub(crate) peak: i64,
    pub(crate) allocated: i64,
    pub(crate) freed: i64,
}

/// A number of all allocations, of small and of large ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SpyrePools {
    pub(crate) all: SpyreStat,
    pub(crate) small: SpyreStat,
    pub(crate) large: SpyreStat,
}

/// Counts of a device's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SpyreStats {
    pub(crate) allocation: SpyrePools,
    pub(crate) allocated_bytes: SpyrePools,
    pub(crate) requested_bytes: SpyrePools,
    pub(crate) reserved_bytes: SpyrePools,
    pub(crate) segment: SpyreStat,
    pub(crate) inactive_bytes: i64,
    pub(crate) inactive_blocks: i64,
    pub(crate) retries: i64,
    pub(crate) ooms: i64,
}

impl SpyreStat {
    pub(crate) const ZERO: Self = Self { current: 0, peak: 0, allocated: 0, freed: 0 };

    #[inline]
    pub(crate) fn add(&mut self, count: i64) {
        self.current += count;
        self.allocated += count;
        self.peak = self.peak.max(self.current);
    }

    #[inline]
    pub(crate) fn take(&mut self, count: i64) {
        self.current -= count;
        self.freed += count;
    }

    /// Sets the current value to one that is counted in another place.
    fn follow(&mut self, count: i64) {
        match count - self.current {
            more @ 1.. => self.add(more),
            less => self.take(-less),
        }
    }

    pub(crate) fn reset_peak(&mut self) {
        self.peak = self.current;
    }

    pub(crate) fn reset_totals(&mut self) {
        (self.allocated, self.freed) = (0, 0);
    }
}

impl SpyrePools {
    #[inline]
    fn add(&mut self, is_large: bool, count: i64) {
        self.all.add(count);
        self.pool(is_large).add(count);
    }

    #[inline]
    fn take(&mut self, is_large: bool, count: i64) {
        self.all.take(count);
        self.pool(is_large).take(count);
    }

    #[inline]
    fn pool(&mut self, is_large: bool) -> &mut SpyreStat {
        if is_large { &mut self.large } else { &mut self.small }
    }
}

impl MemoryStatistics {
    #[inline]
    pub(crate) fn allocate(&self, device_bytes: u64, host_bytes: u64) {
        let counts = &mut *self.counts.lock();
        let is_large = device_bytes >= LARGE_BYTES;
        counts.allocation.add(is_large, 1);
        counts.allocated_bytes.add(is_large, device_bytes as i64);
        counts.requested_bytes.add(is_large, host_bytes as i64);
    }

    #[inline]
    pub(crate) fn free(&self, device_bytes: u64, host_bytes: u64) {
        let counts = &mut *self.counts.lock();
        let is_large = device_bytes >= LARGE_BYTES;
        counts.allocation.take(is_large, 1);
        counts.allocated_bytes.take(is_large, device_bytes as i64);
        counts.requested_bytes.take(is_large, host_bytes as i64);
    }

    /// Returns true if tensors may take `device_bytes` more.
    #[inline]
    pub(crate) fn has_room(&self, device_bytes: u64) -> bool {
        let limit = self.limit_bytes.load(Ordering::Relaxed);
        limit == u64::MAX || self.would_fit(device_bytes, limit)
    }

    #[cold]
    fn would_fit(&self, device_bytes: u64, limit: u64) -> bool {
        let allocated = self.counts.lock().allocated_bytes.all.current as u64;
        allocated.saturating_add(device_bytes) <= limit
    }

    /// The share of the budget that tensors may have.
    pub(crate) fn fraction(&self) -> f64 {
        f64::from_bits(self.fraction.load(Ordering::Relaxed))
    }

    /// Sets this share; 1 removes the limit.
    pub(crate) fn set_fraction(&self, fraction: f64, total_bytes: u64) {
        let limit = if fraction < 1.0 { (total_bytes as f64 * fraction) as u64 } else { u64::MAX };
        self.fraction.store(fraction.to_bits(), Ordering::Relaxed);
        self.limit_bytes.store(limit, Ordering::Relaxed);
    }

    pub(crate) fn note_out_of_memory(&self) {
        let counts = &mut *self.counts.lock();
        counts.ooms += 1;
        counts.retries += 1;
    }

    /// All of it. What the card's allocator holds is what is given out and what it keeps.
    pub(crate) fn counts(&self, device: &Device) -> SpyreStats {
        let memory = device.allocator().statistics();
        let counts = &mut *self.counts.lock();
        let reserved = &mut counts.reserved_bytes;
        let allocated = &counts.allocated_bytes;
        reserved.all.follow((memory.allocated_bytes + memory.cached_bytes) as i64);
        reserved.all.peak = reserved.all.peak.max(allocated.all.peak);
        // Large blocks are not kept when they are free.
        reserved.large = allocated.large;
        reserved.small.follow(reserved.all.current - reserved.large.current);
        counts.segment.follow(i64::from(memory.reserved_bytes > 0));
        counts.inactive_bytes = memory.cached_bytes as i64;
        *counts
    }

    pub(crate) fn reset_peaks(&self) {
        self.each(SpyreStat::reset_peak);
    }

    pub(crate) fn reset_totals(&self) {
        self.each(SpyreStat::reset_totals);
        let counts = &mut *self.counts.lock();
        (counts.ooms, counts.retries) = (0, 0);
    }

    fn each(&self, change: impl Fn(&mut SpyreStat)) {
        let counts = &mut *self.counts.lock();
        let pools = [
            &mut counts.allocation,
            &mut counts.allocated_bytes,
            &mut counts.requested_bytes,
            &mut counts.reserved_bytes,
        ];
        let stats = pools.into_iter().flat_map(|it| [&mut it.all, &mut it.small, &mut it.large]);
        stats.chain([&mut counts.segment]).for_each(change);
    }
}

impl Default for MemoryStatistics {
    fn default() -> Self {
        Self {
            counts: Mutex::default(),
            limit_bytes: AtomicU64::new(u64::MAX),
            fraction: AtomicU64::new(1.0_f64.to_bits()),
        }
    }
}
