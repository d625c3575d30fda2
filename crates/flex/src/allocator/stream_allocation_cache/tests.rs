use std::collections::HashMap;
use std::sync::Arc;

use spyre_hal::{HandleTag, Location, NullCard, VFDeviceHandle};

use super::*;
use crate::stream::ring::{Full, RingSizes};
use crate::stream::table::{Lane, StreamTable};
use crate::{Error, FlexAllocator, MemoryAccess, MemoryUse, Priority, Settings};

/// An allocator and two streams. The streams take blocks, and carry them out only when a test says
/// so.
struct Bed {
    allocator: FlexAllocator,
    lanes: [Arc<Lane>; 2],
}

impl Bed {
    fn new() -> Self {
        let table = Arc::new(StreamTable::new());
        let sizes = RingSizes { first: 1 << 16, bound: 1 << 16 };
        let lane = || table.open(Priority::Low, sizes).expect("room for a lane").0;
        let lanes = [lane(), lane()];
        let card = Arc::new(NullCard::new());
        Self { allocator: FlexAllocator::new(card, table, Settings::default()), lanes }
    }

    fn allocate(&self, lane: usize) -> Result<DeviceHandle, Error> {
        self.allocator.allocate(128, self.lanes[lane].index)
    }

    /// Queues a block that uses an allocation, and returns its number.
    fn use_range(&self, lane: usize, range: DeviceRange) -> Result<u64, Error> {
        let lane = &self.lanes[lane];
        let reserve = || lane.ring.reserve(1).map(|reserved| (reserved, reserved.first));
        let used = MemoryUse { range, access: MemoryAccess::Update };
        let reserved = self.allocator.commit(&[(0, used)][..], lane, reserve)?;
        Ok(reserved.unwrap_or_else(|Full| panic!("the ring is full")).1)
    }

    fn use_all(&self, lane: usize, handle: DeviceHandle) -> Result<u64, Error> {
        self.use_range(lane, DeviceRange { handle, offset: 0, bytes: 128 })
    }

    fn is_cached(&self, lane: usize, handle: DeviceHandle) -> bool {
        let places = self.lanes[lane].allocation_cache.places.0.lock();
        places[place(handle)].is_some_and(|cached| cached.handle == handle)
    }
}

#[test]
fn an_allocation_is_cached_from_its_second_use_until_it_is_freed() -> Result<(), Error> {
    let bed = Bed::new();
    let handle = bed.allocate(0)?;
    bed.use_all(0, handle)?;
    assert!(!bed.is_cached(0, handle));
    bed.use_all(0, handle)?;
    assert!(bed.is_cached(0, handle) && !bed.is_cached(1, handle));
    bed.allocator.free(handle)?;
    assert!(!bed.is_cached(0, handle));
    Ok(())
}

#[test]
fn another_stream_waits_for_the_last_use_of_a_cached_allocation() -> Result<(), Error> {
    let bed = Bed::new();
    let handle = bed.allocate(0)?;
    for _ in 0..5 {
        bed.use_all(0, handle)?;
    }
    let last = bed.use_all(0, handle)?;
    bed.allocator.free(handle)?;

    bed.lanes[0].complete(last - 1);
    assert_ne!(bed.allocate(1)?.location(), handle.location());
    bed.lanes[0].complete(last);
    assert_eq!(bed.allocate(1)?.location(), handle.location());
    Ok(())
}

#[test]
fn no_handle_that_resembles_a_cached_one_is_taken() -> Result<(), Error> {
    let bed = Bed::new();
    let handle = bed.allocate(0)?;
    bed.use_all(0, handle)?;
    bed.use_all(0, handle)?;
    let Location::Vf(place) = handle.location() else { panic!("a null card is in VF mode") };
    let HandleTag { epoch, generation, slot } = handle.tag();
    let near = [
        (place, HandleTag { epoch: epoch ^ 1, generation, slot }),
        (place, HandleTag { epoch, generation: generation ^ 1, slot }),
        (place, HandleTag { epoch, generation, slot: slot + PLACES as u32 }),
        (VFDeviceHandle { region_id: 1, ..place }, handle.tag()),
        (VFDeviceHandle { vf_offset: place.vf_offset + 128, ..place }, handle.tag()),
    ];
    for (place, tag) in near {
        let refused = bed.use_all(0, DeviceHandle::vf(place, tag));
        assert!(matches!(refused, Err(Error::BadHandle { .. })), "{tag:?}: {refused:?}");
    }
    for (offset, bytes) in [(0, 129), (128, 1), (u64::MAX, 2)] {
        let refused = bed.use_range(0, DeviceRange { handle, offset, bytes });
        assert!(matches!(refused, Err(Error::OutOfRange { .. })), "{offset}: {refused:?}");
    }
    assert_eq!(bed.use_all(0, handle), Ok(3), "what was refused took a place");
    Ok(())
}

#[test]
fn a_reset_empties_the_cache() -> Result<(), Error> {
    let bed = Bed::new();
    let handle = bed.allocate(0)?;
    bed.use_all(0, handle)?;
    bed.use_all(0, handle)?;
    bed.allocator.reset();
    assert!(matches!(bed.use_all(0, handle), Err(Error::BadHandle { .. })));
    Ok(())
}

/// More allocations than places, so that they push each other out.
#[test]
fn memory_is_given_to_another_stream_when_all_its_uses_are_done() -> Result<(), Error> {
    let bed = Bed::new();
    let mut last_uses: HashMap<Location, [u64; 2]> = HashMap::new();
    let mut live: Vec<DeviceHandle> = Vec::new();
    let mut seed: u64 = 1;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    for _ in 0..60_000 {
        let lane = random(2);
        match random(8) {
            0 if live.len() < 3 * PLACES => {
                let handle = bed.allocate(lane)?;
                let uses = last_uses.entry(handle.location()).or_default();
                let other = bed.lanes[1 - lane].completed();
                assert!(uses[1 - lane] <= other, "{handle} is in use up to {uses:?}");
                live.push(handle);
            }
            1 if !live.is_empty() => {
                let handle = live.swap_remove(random(live.len()));
                bed.allocator.free(handle)?;
                assert!(bed.use_all(lane, handle).is_err() && bed.allocator.free(handle).is_err());
            }
            2 => bed.lanes[lane].complete(bed.lanes[lane].ring.reserved().saturating_sub(3)),
            _ if !live.is_empty() => {
                let handle = live[random(live.len())];
                let used = bed.use_all(lane, handle)?;
                last_uses.entry(handle.location()).or_default()[lane] = used;
            }
            _ => {}
        }
    }
    assert!(last_uses.len() > PLACES);
    Ok(())
}
