//! Allocations for programs, and what the card is notified of.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use spyre_flex::{
    Budget, DeviceHandle, Error, FlexAllocator, LastUse, Settings, StreamIndex, Timelines,
    VirtualRegions,
};
use spyre_hal::{Location, MemoryMode, Region, RegionId, Regions};

const STREAM: StreamIndex = StreamIndex(0);
const OTHER: StreamIndex = StreamIndex(1);

/// A card that remembers which ranges are protected.
#[derive(Debug)]
struct Card {
    regions: VirtualRegions,
    protected: Mutex<Vec<(u16, u64, u64)>>,
}

impl Regions for Card {
    fn mode(&self) -> MemoryMode {
        self.regions.mode()
    }

    fn try_allocate(&self, bytes: u64) -> Option<Region> {
        self.regions.try_allocate(bytes)
    }

    fn release(&self, region: RegionId) {
        self.protected.lock().retain(|(id, ..)| *id != region.0);
        self.regions.release(region);
    }

    fn protect(&self, region: RegionId, offset_bytes: u64, bytes: u64) {
        let mut protected = self.protected.lock();
        let touches = |&(id, start, length): &(u16, u64, u64)| {
            id == region.0 && start < offset_bytes + bytes && offset_bytes < start + length
        };
        assert!(!protected.iter().any(touches), "it is protected already");
        protected.push((region.0, offset_bytes, bytes));
    }

    fn unprotect(&self, region: RegionId, offset_bytes: u64, bytes: u64) {
        let mut protected = self.protected.lock();
        let range = (region.0, offset_bytes, bytes);
        let at = protected.iter().position(|known| *known == range);
        protected.swap_remove(at.expect("it was protected just so"));
    }
}

/// Streams that are done when the test says so.
#[derive(Debug, Default)]
struct Clock(AtomicU64);

impl Timelines for Clock {
    fn is_done(&self, last_use: LastUse) -> bool {
        last_use.sequence <= self.0.load(Ordering::Relaxed)
    }
}

fn open(limit_bytes: u64) -> (Arc<Card>, Arc<Clock>, FlexAllocator) {
    let regions = VirtualRegions::new(2, 1 << 20);
    let card = Arc::new(Card { regions, protected: Mutex::default() });
    let clock = Arc::new(Clock::default());
    let budget = Arc::new(Budget::new(limit_bytes));
    let settings = Settings { region_bytes: vec![1 << 20], budget };
    let allocator = FlexAllocator::new(card.clone(), clock.clone(), settings);
    (card, clock, allocator)
}

fn range(handle: DeviceHandle, bytes: u64) -> (u16, u64, u64) {
    match handle.location() {
        Location::Vf(place) => (place.region_id, place.vf_offset, bytes),
        Location::Pf(_) => panic!("a VF card"),
    }
}

#[test]
fn a_program_is_protected_until_it_is_freed() -> Result<(), Error> {
    let (card, _, allocator) = open(u64::MAX);
    let plain = allocator.allocate(1000, STREAM)?;
    let program = allocator.allocate_program(1000)?;
    assert_eq!(*card.protected.lock(), [range(program, 1024)]);
    allocator.free(plain)?;
    assert_eq!(card.protected.lock().len(), 1);
    allocator.free(program)?;
    assert!(card.protected.lock().is_empty());
    assert!(matches!(allocator.free(program), Err(Error::BadHandle { .. })));
    assert_eq!(allocator.statistics().allocated_bytes, 0);
    Ok(())
}

#[test]
fn what_streams_still_use_stays_protected_and_is_not_given_out() -> Result<(), Error> {
    let (card, clock, allocator) = open(u64::MAX);
    let program = allocator.allocate_program(512)?;
    allocator.record_use(program, LastUse { stream: STREAM, sequence: 5 })?;
    allocator.free(program)?;
    assert_eq!(card.protected.lock().len(), 1, "a launch is queued");
    for stream in [STREAM, OTHER] {
        let plain = allocator.allocate(512, stream)?;
        assert_ne!(range(plain, 512), range(program, 512));
    }

    clock.0.store(5, Ordering::Relaxed);
    let next = allocator.allocate_program(512)?;
    assert_eq!(*card.protected.lock(), [range(next, 512)]);
    Ok(())
}

#[test]
fn a_block_that_was_plain_is_no_program_while_streams_use_it() -> Result<(), Error> {
    let (_, _, allocator) = open(u64::MAX);
    let plain = allocator.allocate(512, STREAM)?;
    allocator.record_use(plain, LastUse { stream: STREAM, sequence: 5 })?;
    allocator.free(plain)?;
    let program = allocator.allocate_program(512)?;
    assert_ne!(range(program, 512), range(plain, 512), "a store may be on its way there");
    Ok(())
}

#[test]
fn memory_of_programs_is_charged_and_comes_back() -> Result<(), Error> {
    let (card, clock, allocator) = open(1024);
    let program = allocator.allocate_program(1024)?;
    assert!(matches!(allocator.allocate(1, STREAM), Err(Error::OutOfMemory { .. })));
    allocator.record_use(program, LastUse { stream: STREAM, sequence: 1 })?;
    allocator.free(program)?;
    assert!(matches!(allocator.allocate_program(1024), Err(Error::OutOfMemory { .. })));

    let drained = allocator.allocate_program_or_drain(1024, || {
        clock.0.store(1, Ordering::Relaxed);
        Ok(())
    });
    assert_eq!(*card.protected.lock(), [range(drained?, 1024)]);
    Ok(())
}

#[test]
fn a_reset_forgets_programs_too() -> Result<(), Error> {
    let (card, _, allocator) = open(u64::MAX);
    let program = allocator.allocate_program(1000)?;
    allocator.reset();
    assert!(card.protected.lock().is_empty());
    assert!(matches!(allocator.free(program), Err(Error::BadHandle { .. })));
    Ok(())
}
