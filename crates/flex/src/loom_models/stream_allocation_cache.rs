//! An allocation that is freed while a stream uses it, with its own lock only, is refused there or
//! keeps the use.

use std::sync::Arc;

use spyre_hal::{DeviceRange, NullCard};

use super::{explore, lane};
use crate::stream::table::StreamTable;
use crate::{FlexAllocator, MemoryAccess, MemoryUse, Settings};

#[test]
fn loom_a_use_and_a_free_are_in_one_order() {
    explore("allocation cache, a use and a free", None, || {
        let table = Arc::new(StreamTable::new());
        let own = lane(&table);
        let other = lane(&table);
        let card = Arc::new(NullCard::new());
        let allocator = Arc::new(FlexAllocator::new(card, table, Settings::default()));
        let handle = allocator.allocate(128, own.index).expect("memory");
        let range = DeviceRange { handle, offset: 0, bytes: 128 };
        let uses = [(0, MemoryUse { range, access: MemoryAccess::Update })];
        own.ring.grow(3).expect("below the bound");
        let reserve = || own.ring.reserve(1).map(|r| (r, r.first));
        for _ in 0..2 {
            let reserved = allocator.commit(&uses[..], &own, reserve).expect("it is live");
            own.complete(reserved.expect("room").1);
        }

        let freer = loom::thread::spawn({
            let allocator = Arc::clone(&allocator);
            move || allocator.free(handle).expect("it is live")
        });
        let used = allocator.commit(&uses[..], &own, reserve);
        freer.join().expect("the thread ends");

        let again = allocator.commit(&uses[..], &own, reserve);
        assert!(again.is_err(), "a handle that was freed was taken");
        let next = allocator.allocate(128, other.index).expect("memory");
        let is_kept = next.location() != handle.location();
        assert_eq!(is_kept, used.is_ok(), "whether it waits for the use that was queued");
    });
}
