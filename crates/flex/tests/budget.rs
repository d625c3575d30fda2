//! One budget for all cards of a process.

use std::sync::Arc;
use std::thread;

use spyre_flex::{
    Budget, DeviceHandle, Error, FlexAllocator, Idle, Settings, StreamIndex, VirtualRegions,
};

const MIB: u64 = 1 << 20;
const STREAM: StreamIndex = StreamIndex(0);

fn card(budget: &Arc<Budget>) -> FlexAllocator {
    let settings = Settings { region_bytes: vec![64 * MIB], budget: budget.clone() };
    FlexAllocator::new(Arc::new(VirtualRegions::new(4, 64 * MIB)), Arc::new(Idle), settings)
}

fn two_cards(limit_bytes: u64) -> (Arc<Budget>, FlexAllocator, FlexAllocator) {
    let budget = Arc::new(Budget::new(limit_bytes));
    let first = card(&budget);
    let second = card(&budget);
    (budget, first, second)
}

/// Blocks of 256 KiB, which are cached when they are freed.
fn take(allocator: &FlexAllocator, blocks: usize) -> Result<Vec<DeviceHandle>, Error> {
    (0..blocks).map(|_| allocator.allocate(MIB / 4, STREAM)).collect()
}

fn free(allocator: &FlexAllocator, handles: Vec<DeviceHandle>) -> Result<(), Error> {
    handles.into_iter().try_for_each(|handle| allocator.free(handle))
}

#[test]
fn what_does_not_fit_is_refused_as_a_whole() {
    let budget = Budget::new(1000);
    assert!(budget.try_commit(1000));
    assert!(!budget.try_commit(1));
    assert!(budget.try_commit(0));
    budget.release(400);
    assert!(!budget.try_commit(401));
    assert!(budget.try_commit(400));
    assert_eq!((budget.committed_bytes(), budget.limit_bytes()), (1000, 1000));
}

#[test]
fn no_sum_wraps() {
    let budget = Budget::new(u64::MAX);
    assert!(budget.try_commit(u64::MAX));
    assert!(!budget.try_commit(1));
    assert!(!budget.try_commit(u64::MAX));
    budget.release(u64::MAX);
    assert_eq!(budget.committed_bytes(), 0);
}

#[test]
fn threads_never_commit_more_than_the_limit() {
    const LIMIT: u64 = 1000;
    let budget = Budget::new(LIMIT);
    let taken: u64 = thread::scope(|scope| {
        let work = |seed: u64| {
            let budget = &budget;
            move || {
                let mut taken = 0;
                for step in 0..100_000 {
                    let bytes = (step * 31 + seed * 17) % 700;
                    if budget.try_commit(bytes) {
                        assert!(budget.committed_bytes() <= LIMIT);
                        taken += 1;
                        budget.release(bytes);
                    }
                }
                taken
            }
        };
        let threads: Vec<_> = (0..4).map(|seed| scope.spawn(work(seed))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert!(taken > 0);
    assert_eq!(budget.committed_bytes(), 0);
}

#[test]
fn all_cards_of_the_process_share_one() -> Result<(), Error> {
    let shared = Budget::of_process()?;
    assert!(Arc::ptr_eq(&shared, &Budget::of_process()?));
    assert!(shared.limit_bytes() > 0);
    Ok(())
}

#[test]
fn one_card_takes_from_the_other() -> Result<(), Error> {
    let (budget, first, second) = two_cards(100 * MIB);
    let handle = first.allocate(60 * MIB, STREAM)?;

    let error = second.allocate(50 * MIB, STREAM).expect_err("40 MiB are left");
    assert_eq!(
        error,
        Error::OutOfMemory {
            requested: 50 * MIB,
            free: 0,
            reserved: 0,
            largest: 0,
            committed: 60 * MIB,
            limit: 100 * MIB,
        }
    );
    first.free(handle)?;
    second.allocate(50 * MIB, STREAM)?;
    assert_eq!(budget.committed_bytes(), 50 * MIB);
    Ok(())
}

#[test]
fn cached_blocks_stay_charged_until_they_are_given_back() -> Result<(), Error> {
    let (budget, card, _) = two_cards(100 * MIB);
    let handles = take(&card, 4)?;
    assert_eq!(budget.committed_bytes(), MIB);
    free(&card, handles)?;
    assert_eq!(budget.committed_bytes(), MIB);
    let handles = take(&card, 4)?;
    assert_eq!(budget.committed_bytes(), MIB);
    free(&card, handles)?;
    card.empty_cache();
    assert_eq!(budget.committed_bytes(), 0);
    Ok(())
}

#[test]
fn a_refused_card_gives_its_own_cache_back_first() -> Result<(), Error> {
    let (budget, first, second) = two_cards(10 * MIB);
    free(&first, take(&first, 20)?)?;
    free(&second, take(&second, 12)?)?;
    first.allocate(5 * MIB, STREAM)?;
    assert_eq!(first.statistics().cached_bytes, 0);
    assert_eq!(second.statistics().cached_bytes, 3 * MIB);
    assert_eq!(budget.committed_bytes(), 8 * MIB);
    Ok(())
}

#[test]
fn a_refused_card_has_the_others_give_back() -> Result<(), Error> {
    let (budget, first, second) = two_cards(10 * MIB);
    let mut handles = take(&first, 36)?;
    let kept = handles.pop().expect("one of them");
    free(&first, handles)?;

    second.allocate(9 * MIB, STREAM)?;
    assert_eq!(first.statistics().cached_bytes, 0);
    assert_eq!(budget.committed_bytes(), 9 * MIB + MIB / 4);
    first.check(kept, 0, MIB / 4)
}

#[test]
fn a_request_that_no_region_holds_costs_no_card_its_cache() -> Result<(), Error> {
    let (_, first, second) = two_cards(100 * MIB);
    free(&first, take(&first, 4)?)?;
    assert!(second.allocate(65 * MIB, STREAM).is_err());
    assert_eq!(first.statistics().cached_bytes, MIB);
    Ok(())
}

#[test]
fn a_card_that_goes_leaves_nothing_charged() -> Result<(), Error> {
    let (budget, first, second) = two_cards(100 * MIB);
    first.allocate(MIB, STREAM)?;
    second.allocate(MIB, STREAM)?;
    free(&second, take(&second, 4)?)?;
    assert_eq!(budget.committed_bytes(), 3 * MIB);
    drop(second);
    assert_eq!(budget.committed_bytes(), MIB);
    first.reset();
    assert_eq!(budget.committed_bytes(), 0);
    Ok(())
}

#[test]
fn a_request_that_finds_no_block_is_not_charged() -> Result<(), Error> {
    let budget = Arc::new(Budget::new(1000 * MIB));
    let card = card(&budget);
    let handles: Result<Vec<_>, _> = (0..4).map(|_| card.allocate(40 * MIB, STREAM)).collect();
    assert!(card.allocate(40 * MIB, STREAM).is_err()); // all four regions are begun
    assert_eq!(budget.committed_bytes(), 160 * MIB);
    free(&card, handles?)
}

#[test]
fn cards_under_pressure_on_many_threads_stay_within_the_budget() {
    let (budget, first, second) = two_cards(8 * MIB);
    let served: usize = thread::scope(|scope| {
        let work = |card: &'static str, allocator, seed: u64| {
            let budget = &budget;
            move || {
                let mut served = 0;
                for step in 0..3000 {
                    let bytes = 1 + (step * 7919 + seed * 104_729) % (2 * MIB);
                    let Ok(handle) = FlexAllocator::allocate(allocator, bytes, STREAM) else {
                        continue;
                    };
                    assert!(budget.committed_bytes() <= budget.limit_bytes(), "{card}");
                    allocator.free(handle).expect("live");
                    served += 1;
                }
                served
            }
        };
        let threads = [
            scope.spawn(work("first", &first, 1)),
            scope.spawn(work("first", &first, 2)),
            scope.spawn(work("second", &second, 3)),
            scope.spawn(work("second", &second, 4)),
        ];
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    // Refused only when caches fill up again between being given back and the second try.
    assert!(served > 6000, "{served}");
    let of = |card: &FlexAllocator| card.statistics().cached_bytes;
    assert_eq!(budget.committed_bytes(), of(&first) + of(&second));
    drop((first, second));
    assert_eq!(budget.committed_bytes(), 0);
}
