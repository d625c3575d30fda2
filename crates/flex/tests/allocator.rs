//! The allocator against a simple model, and against handles that are not its own.

mod support;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use spyre_flex::{
    BlockState, Budget, DeviceHandle, Error, FlexAllocator, Idle, LastUse, Settings, Statistics,
    StreamIndex, Timelines, VirtualRegions,
};
use spyre_hal::{HandleTag, Location, MemoryMode, Region, RegionId, Regions, VFDeviceHandle};
use support::Random;

/// Random size from 1 byte to 4 MiB, small ones most often.
fn any_bytes(random: &mut Random) -> u64 {
    let power = random.below(16);
    1 + random.below(128 << power)
}

/// Streams whose blocks complete when the test says so.
#[derive(Debug, Default)]
struct Clock {
    done: [AtomicU64; 4],
}

impl Timelines for Clock {
    fn is_done(&self, last_use: LastUse) -> bool {
        let done = self.done[usize::from(last_use.stream.0)].load(Ordering::Relaxed);
        last_use.sequence <= done
    }
}

fn small_card() -> Settings {
    Settings { region_bytes: vec![64 << 20], ..Settings::default() }
}

fn open(settings: Settings) -> FlexAllocator {
    FlexAllocator::new(Arc::new(VirtualRegions::new(4, 64 << 20)), Arc::new(Idle), settings)
}

fn place(handle: DeviceHandle) -> (u16, u64) {
    match handle.location() {
        Location::Vf(VFDeviceHandle { region_id, vf_offset }) => (region_id, vf_offset),
        Location::Pf(_) => panic!("a VF card"),
    }
}

/// No two blocks overlap, none is forgotten, and the numbers add up.
fn check_snapshot(allocator: &FlexAllocator) {
    let statistics = allocator.statistics();
    let mut totals = BTreeMap::new();
    let mut next = BTreeMap::new();
    let mut last = None;
    for block in allocator.snapshot() {
        let start = next.entry(block.region).or_insert(0);
        assert_eq!(block.offset_bytes, *start, "blocks follow each other");
        *start += block.bytes;
        *totals.entry(format!("{:?}", block.state)).or_insert(0) += block.bytes;
        let is_free = block.state == BlockState::Free;
        assert!(!(is_free && last == Some(block.region)), "free neighbours are joined");
        last = is_free.then_some(block.region);
    }
    let total = |state: &str| totals.get(state).copied().unwrap_or(0);
    assert_eq!(total("Live"), statistics.allocated_bytes);
    assert_eq!(total("Cached"), statistics.cached_bytes);
    assert_eq!(total("Free"), statistics.free_bytes);
    assert_eq!(next.values().sum::<u64>(), statistics.reserved_bytes);
}

#[test]
fn a_block_is_found_by_its_handle_in_both_modes() -> Result<(), Error> {
    let pf = FlexAllocator::new(Arc::new(PhysicalCard), Arc::new(Idle), Settings::default());
    for allocator in [pf, open(small_card())] {
        let handles = [100, 5000, 1 << 20].map(|bytes| allocator.allocate(bytes, StreamIndex(0)));
        for handle in handles {
            let handle = handle?;
            let block = allocator.block(handle)?;
            assert_eq!(block.state, BlockState::Live);
            assert!(allocator.snapshot().contains(&block));
            allocator.free(handle)?;
            assert!(matches!(allocator.block(handle), Err(Error::BadHandle { .. })));
        }
    }
    Ok(())
}

#[test]
fn random_traces_equal_a_simple_model() -> Result<(), Error> {
    for seed in 0..40 {
        let allocator = open(small_card());
        let mut random = Random::new(seed);
        let mut live: BTreeMap<(u16, u64), (u64, DeviceHandle)> = BTreeMap::new();
        for step in 0..4000 {
            if random.below(2) == 0 || live.is_empty() {
                let bytes = any_bytes(&mut random);
                let Ok(handle) = allocator.allocate(bytes, StreamIndex(0)) else { continue };
                let (region, offset) = place(handle);
                assert!(offset.is_multiple_of(128));
                let before = live.range(..(region, offset)).next_back();
                let after = live.range((region, offset)..).next();
                let end = offset + bytes.next_multiple_of(128);
                assert!(before.is_none_or(|(at, old)| at.0 != region || at.1 + old.0 <= offset));
                assert!(after.is_none_or(|(at, _)| at.0 != region || at.1 >= end));
                live.insert((region, offset), (bytes.next_multiple_of(128), handle));
            } else {
                let at = *live.keys().nth(random.below(live.len() as u64) as usize).expect("some");
                let (_, handle) = live.remove(&at).expect("live");
                allocator.free(handle)?;
            }
            if step % 256 == 0 {
                check_snapshot(&allocator);
            }
        }
        let sum: u64 = live.values().map(|(bytes, _)| bytes).sum();
        assert_eq!(allocator.statistics().allocated_bytes, sum);
        for (_, handle) in live.into_values() {
            allocator.free(handle)?;
        }
        allocator.empty_cache();
        check_snapshot(&allocator);
        assert_eq!(allocator.statistics().fragmentation() > 0.0, allocator.snapshot().len() > 1);
        assert_eq!(allocator.statistics().allocated_bytes, 0);
    }
    Ok(())
}

#[test]
fn a_block_is_never_given_out_while_another_stream_uses_it() -> Result<(), Error> {
    for seed in 0..40 {
        let clock = Arc::new(Clock::default());
        let regions = Arc::new(VirtualRegions::new(2, 1 << 20));
        let settings = Settings { region_bytes: vec![1 << 20], ..Settings::default() };
        let allocator = FlexAllocator::new(regions, clock.clone(), settings);
        let mut random = Random::new(seed);
        let mut live: Vec<(DeviceHandle, u64)> = Vec::new();
        // The uses of every byte range that was freed: who may not have it yet.
        let mut pending: Vec<((u16, u64), u64, LastUse)> = Vec::new();
        for sequence in 1..3000 {
            let stream = StreamIndex(random.below(4) as u16);
            match random.below(5) {
                0 | 1 => {
                    let bytes = 1 + random.below(64 << 10);
                    let Ok(handle) = allocator.allocate(bytes, stream) else { continue };
                    let (region, offset) = place(handle);
                    let end = offset + bytes.next_multiple_of(128);
                    for &((other, start), length, last_use) in &pending {
                        let overlaps = other == region && start < end && offset < start + length;
                        let may = last_use.stream == stream || clock.is_done(last_use);
                        assert!(!overlaps || may, "seed {seed}: {handle} is still used");
                    }
                    live.push((handle, bytes.next_multiple_of(128)));
                }
                2 if !live.is_empty() => {
                    let at = random.below(live.len() as u64) as usize;
                    let last_use = LastUse { stream, sequence };
                    allocator.record_use(live[at].0, last_use)?;
                    pending.push((place(live[at].0), live[at].1, last_use));
                }
                3 if !live.is_empty() => {
                    let at = random.below(live.len() as u64) as usize;
                    allocator.free(live.swap_remove(at).0)?;
                }
                _ => {
                    let done = &clock.done[usize::from(stream.0)];
                    done.store(sequence.saturating_sub(random.below(50)), Ordering::Relaxed);
                    pending.retain(|(_, _, last_use)| !clock.is_done(*last_use));
                }
            }
        }
        check_snapshot(&allocator);
    }
    Ok(())
}

#[test]
fn a_million_bad_handles_are_all_refused() -> Result<(), Error> {
    let allocator = open(small_card());
    let other = open(small_card());
    let mut random = Random::new(7);
    let mut live: Vec<DeviceHandle> = Vec::new();
    let mut dead: Vec<DeviceHandle> = Vec::new();
    for _ in 0..2000 {
        live.push(allocator.allocate(any_bytes(&mut random).min(20_000), StreamIndex(0))?);
        dead.push(other.allocate(any_bytes(&mut random).min(20_000), StreamIndex(0))?);
        if random.below(2) == 0 {
            let handle = live.swap_remove(random.below(live.len() as u64) as usize);
            allocator.free(handle)?;
            dead.push(handle);
        }
    }
    let is_live: HashSet<DeviceHandle> = live.iter().copied().collect();
    for _ in 0..1_000_000 {
        let known = live[random.below(live.len() as u64) as usize];
        let old = dead[random.below(dead.len() as u64) as usize];
        let bad = match random.below(3) {
            0 => old,
            1 => forged(&mut random, known),
            _ => forged(&mut random, old),
        };
        if !is_live.contains(&bad) {
            assert!(matches!(allocator.check(bad, 0, 1), Err(Error::BadHandle { .. })), "{bad:?}");
        }
    }
    for handle in live {
        allocator.check(handle, 0, 1)?;
        allocator.free(handle)?;
        assert!(allocator.free(handle).is_err());
    }
    Ok(())
}

/// A handle with something about it changed.
fn forged(random: &mut Random, handle: DeviceHandle) -> DeviceHandle {
    let (region_id, vf_offset) = place(handle);
    let tag = handle.tag();
    let mut place = VFDeviceHandle { region_id, vf_offset };
    let mut forged = tag;
    match random.below(5) {
        0 => forged.epoch ^= 1 + random.below(0xFFFE) as u16,
        1 => forged.generation ^= 1 + random.below(0xFFFF_FFFE) as u32,
        2 => forged.slot ^= 1 + random.below(0xFFFF) as u32,
        3 => place.vf_offset ^= 128,
        _ => place.region_id ^= 1 + random.below(7) as u16,
    }
    DeviceHandle::vf(place, HandleTag { ..forged })
}

#[test]
fn out_of_memory_names_the_numbers_and_loses_nothing() -> Result<(), Error> {
    let allocator = open(Settings { budget: Arc::new(Budget::new(100 << 20)), ..small_card() });
    let handle = allocator.allocate(60 << 20, StreamIndex(0))?;
    let before = allocator.statistics();

    let error = allocator.allocate(50 << 20, StreamIndex(0)).expect_err("past the limit");
    assert_eq!(
        error,
        Error::OutOfMemory {
            requested: 50 << 20,
            free: 4 << 20,
            reserved: 64 << 20,
            largest: 4 << 20,
            committed: 60 << 20,
            limit: 100 << 20,
        }
    );
    assert!(allocator.allocate(65 << 20, StreamIndex(0)).is_err()); // larger than any region
    assert!(allocator.allocate(u64::MAX, StreamIndex(0)).is_err());

    assert_eq!(allocator.statistics(), before);
    allocator.free(handle)
}

#[test]
fn accesses_past_the_end_are_refused() -> Result<(), Error> {
    let allocator = open(small_card());
    let handle = allocator.allocate(1000, StreamIndex(0))?;
    assert_eq!(allocator.check(handle, 0, 1024), Ok(()));
    assert_eq!(allocator.check(handle, 1024, 0), Ok(()));
    assert_eq!(
        allocator.check(handle, 1000, 25).expect_err("one byte too many").to_string(),
        format!("25 bytes at offset 1000 of {handle} end past its 1024 bytes")
    );
    assert!(allocator.check(handle, u64::MAX, 2).is_err());
    Ok(())
}

/// One region in PF mode, at an address.
#[derive(Debug)]
struct PhysicalCard;

impl Regions for PhysicalCard {
    fn mode(&self) -> MemoryMode {
        MemoryMode::Pf
    }

    fn try_allocate(&self, bytes: u64) -> Option<Region> {
        (bytes <= 8 << 30).then_some(Region { id: RegionId(0), base_address: 1 << 34, bytes })
    }

    fn release(&self, _: RegionId) {}
}

#[test]
fn pf_handles_are_addresses_and_refused_regions_are_asked_for_smaller() -> Result<(), Error> {
    let allocator = FlexAllocator::new(Arc::new(PhysicalCard), Arc::new(Idle), Settings::default());
    let first = allocator.allocate(128, StreamIndex(0))?;
    let second = allocator.allocate(128, StreamIndex(0))?;
    assert_eq!(first.to_string(), "pf:0x400000000");
    assert_eq!(second.to_string(), "pf:0x400000080");
    assert_eq!(allocator.statistics().reserved_bytes, 8 << 30); // 12 GB was refused
    Ok(())
}

#[test]
fn regions_are_taken_lazily_and_given_back() -> Result<(), Error> {
    let regions = Arc::new(VirtualRegions::new(1, 64 << 20));
    let allocator = FlexAllocator::new(regions.clone(), Arc::new(Idle), small_card());
    assert_eq!(allocator.statistics().reserved_bytes, 0);
    allocator.allocate(1, StreamIndex(0))?;
    assert!(regions.try_allocate(1).is_none());
    drop(allocator);
    assert!(regions.try_allocate(1).is_some());
    Ok(())
}

/// A card with one region of 1 MiB, full of one block that stream 1 still uses after its free.
fn full_of_one_block_in_use() -> Result<(Arc<Clock>, FlexAllocator), Error> {
    let clock = Arc::new(Clock::default());
    let regions = Arc::new(VirtualRegions::new(1, 1 << 20));
    let settings = Settings { region_bytes: vec![1 << 20], ..Settings::default() };
    let allocator = FlexAllocator::new(regions, clock.clone(), settings);
    let handle = allocator.allocate(1 << 20, StreamIndex(1))?;
    allocator.record_use(handle, LastUse { stream: StreamIndex(1), sequence: 5 })?;
    allocator.free(handle)?;
    Ok((clock, allocator))
}

#[test]
fn out_of_memory_gives_the_cache_back_first() -> Result<(), Error> {
    let allocator = open(small_card());
    let small: Result<Vec<_>, _> =
        (0..4 * 128).map(|_| allocator.allocate(512 << 10, StreamIndex(0))).collect();
    for handle in small? {
        allocator.free(handle)?;
    }
    assert_eq!(allocator.statistics().free_bytes, 0);
    allocator.allocate(64 << 20, StreamIndex(0))?;
    check_snapshot(&allocator);
    Ok(())
}

#[test]
fn out_of_memory_drains_and_asks_once_more() -> Result<(), Error> {
    let (clock, allocator) = full_of_one_block_in_use()?;
    assert!(allocator.allocate(4096, StreamIndex(0)).is_err());

    let drain = || {
        allocator.empty_cache(); // without the lock held
        clock.done[1].store(5, Ordering::Relaxed);
        Ok(())
    };
    allocator.allocate_or_drain(4096, StreamIndex(0), drain)?;
    check_snapshot(&allocator);
    Ok(())
}

#[test]
fn a_drain_that_does_not_help_is_out_of_memory() -> Result<(), Error> {
    let (_, allocator) = full_of_one_block_in_use()?;
    let mut drains = 0;
    let drain = || {
        drains += 1;
        Ok(())
    };
    let error = allocator.allocate_or_drain(4096, StreamIndex(0), drain);
    let expected = Error::OutOfMemory {
        requested: 4096,
        free: 0,
        reserved: 1 << 20,
        largest: 0,
        committed: 1 << 20,
        limit: u64::MAX,
    };
    assert_eq!(error, Err(expected));
    assert_eq!(drains, 1);
    Ok(())
}

#[test]
fn nothing_is_drained_where_it_cannot_help() -> Result<(), Error> {
    let (_, allocator) = full_of_one_block_in_use()?;
    let unneeded = || -> Result<(), Error> { panic!("no need to drain") };
    assert!(allocator.allocate_or_drain(2 << 20, StreamIndex(0), unneeded).is_err());
    allocator.allocate_or_drain(1 << 20, StreamIndex(1), unneeded)?; // its own block again
    assert!(allocator.allocate_or_drain(128, StreamIndex(0), unneeded).is_err());
    Ok(())
}

#[test]
fn out_of_memory_says_all_that_a_person_needs() {
    let allocator = open(small_card());
    assert_eq!(
        allocator.allocate(65 << 20, StreamIndex(0)).expect_err("no such region").to_string(),
        "out of device memory: 68157440 bytes asked; 0 bytes free in 0 reserved, the largest \
         block 0; 0 of 18446744073709551615 bytes committed. Free tensors, or raise \
         SPYRE_MEMORY_LIMIT"
    );
}

#[test]
fn regions_that_nothing_is_left_of_go_back_but_the_first() -> Result<(), Error> {
    let regions = Arc::new(VirtualRegions::new(3, 64 << 20));
    let allocator = FlexAllocator::new(regions.clone(), Arc::new(Idle), small_card());
    let whole: Result<Vec<_>, _> =
        (0..3).map(|_| allocator.allocate(64 << 20, StreamIndex(0))).collect();
    let [first, second, third] = whole?.try_into().expect("three");
    allocator.free(first)?;
    allocator.free(second)?;
    allocator.empty_cache();

    assert_eq!(allocator.statistics().reserved_bytes, 128 << 20);
    assert_eq!(regions.try_allocate(64 << 20).map(|region| region.id), Some(RegionId(1)));
    regions.release(RegionId(1));
    assert!(allocator.check(second, 0, 1).is_err());
    allocator.check(third, 0, 64 << 20)?;

    let again: Result<Vec<_>, _> =
        (0..2).map(|_| allocator.allocate(64 << 20, StreamIndex(0))).collect();
    assert_eq!(again?.into_iter().map(|handle| place(handle).0).collect::<Vec<_>>(), [0, 1]);
    assert!(allocator.free(first).is_err());
    assert!(allocator.free(second).is_err());
    check_snapshot(&allocator);
    allocator.free(third)
}

#[test]
fn random_traces_that_give_regions_back_equal_a_simple_model() -> Result<(), Error> {
    for seed in 0..20 {
        let allocator = open(small_card());
        let mut random = Random::new(seed);
        let mut live: Vec<DeviceHandle> = Vec::new();
        for _ in 0..1000 {
            match random.below(8) {
                0 => allocator.empty_cache(),
                1..4 if !live.is_empty() => {
                    let at = random.below(live.len() as u64) as usize;
                    allocator.free(live.swap_remove(at))?;
                }
                _ => {
                    let bytes = any_bytes(&mut random) * 8;
                    live.extend(allocator.allocate(bytes, StreamIndex(0)));
                }
            }
            for &handle in &live {
                allocator.check(handle, 0, 1)?;
            }
        }
        check_snapshot(&allocator);
    }
    Ok(())
}

#[test]
fn a_reset_refuses_all_handles_from_before() -> Result<(), Error> {
    let regions = Arc::new(VirtualRegions::new(1, 64 << 20));
    let allocator = FlexAllocator::new(regions.clone(), Arc::new(Idle), small_card());
    let live = allocator.allocate(1000, StreamIndex(0))?;
    let freed = allocator.allocate(1000, StreamIndex(0))?;
    allocator.free(freed)?;
    allocator.reset();

    assert_eq!(regions.try_allocate(1).map(|region| region.id), Some(RegionId(0)));
    regions.release(RegionId(0));
    let statistics = allocator.statistics();
    assert_eq!(statistics, Statistics { total_allocations: 2, ..Statistics::default() });

    for handle in [live, freed] {
        let error = allocator.free(handle).expect_err("from before");
        assert!(error.to_string().contains("it is from before a reset"), "{error}");
    }
    let fresh = allocator.allocate(1000, StreamIndex(0))?;
    assert_eq!(place(fresh), place(live));
    assert!(allocator.check(live, 0, 1).is_err());
    assert!(allocator.record_use(live, LastUse { stream: StreamIndex(0), sequence: 1 }).is_err());
    allocator.free(fresh)
}

#[test]
fn after_all_epochs_were_used_no_two_cards_share_one() -> Result<(), Error> {
    let steady = open(small_card());
    let often_reset = open(small_card());
    let kept = steady.allocate(128, StreamIndex(0))?;
    let mut last = often_reset.allocate(128, StreamIndex(0))?;
    for _ in 0..70_000 {
        often_reset.reset();
        let next = often_reset.allocate(128, StreamIndex(0))?;
        assert_ne!(next.tag().epoch, kept.tag().epoch);
        assert!(often_reset.check(last, 0, 1).is_err());
        last = next;
    }
    assert!(steady.check(last, 0, 1).is_err());
    steady.check(kept, 0, 1)
}

/// A process whose shapes are never the same: what is kept for later is not more and more.
#[test]
fn random_sizes_do_not_make_the_cache_grow() -> Result<(), Error> {
    let allocator = FlexAllocator::new(
        Arc::new(VirtualRegions::new(4, 4 << 30)),
        Arc::new(Idle),
        Settings { region_bytes: vec![4 << 30], ..Settings::default() },
    );
    let mut random = Random::new(29);
    let mut live = std::collections::VecDeque::new();
    let mut cached = Vec::new();
    for _ in 0..20 {
        let mut most = 0;
        for _ in 0..20_000 {
            live.push_back(allocator.allocate(1 + random.below(600 << 10), StreamIndex(0))?);
            if live.len() > 16 {
                allocator.free(live.pop_front().expect("some"))?;
            }
            most = most.max(allocator.statistics().cached_bytes);
        }
        cached.push(most);
    }
    check_snapshot(&allocator);
    let bound = (32 << 20) + allocator.statistics().peak_allocated_bytes + (1 << 20);
    assert!(cached.iter().all(|&most| most <= bound), "{cached:?}");
    assert!(cached[19] <= cached[1] + cached[1] / 16, "grows: {cached:?}");
    Ok(())
}

/// Large blocks are kept only while streams use them: later they are given back, though nothing of
/// their size is asked for again.
#[test]
fn large_blocks_that_were_freed_in_use_are_given_back() -> Result<(), Error> {
    let clock = Arc::new(Clock::default());
    let settings = Settings { region_bytes: vec![4 << 30], ..Settings::default() };
    let regions = Arc::new(VirtualRegions::new(4, 4 << 30));
    let allocator = FlexAllocator::new(regions, clock.clone(), settings);
    let mut random = Random::new(7);
    for sequence in 1..2_000 {
        let handle = allocator.allocate((1 << 20) + random.below(8 << 20), StreamIndex(0))?;
        allocator.record_use(handle, LastUse { stream: StreamIndex(0), sequence })?;
        allocator.free(handle)?;
        clock.done[0].store(sequence.saturating_sub(2), Ordering::Relaxed);
        let statistics = allocator.statistics();
        // What streams use stays, and what was freed since.
        assert!(statistics.cached_bytes <= 80 << 20, "{sequence}: {statistics:?}");
    }
    check_snapshot(&allocator);
    Ok(())
}
