//! Cost of opening a card. One test: the process is to hold nothing else.

use std::time::{Duration, Instant};

use spyre_card::SoftwareCard;
use spyre_hal::{
    ControlBlock, DeviceHandle, DeviceRange, EngineIndex, HandleTag, Hardware, MemoryMode, Pattern,
    Regions, Started, Token, VFDeviceHandle,
};

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes << 10
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("Linux").count()
}

fn open() -> (Duration, SoftwareCard) {
    let start = Instant::now();
    let card = SoftwareCard::new(MemoryMode::Vf).with_engines(4);
    let regions: Vec<_> = (0..8).filter_map(|_| card.try_allocate(12 << 30)).collect();
    let elapsed = start.elapsed();
    assert_eq!(regions.len(), 8);
    (elapsed, card)
}

fn fill(card: &SoftwareCard, bytes: u64) {
    let place = VFDeviceHandle { region_id: 7, vf_offset: 0 };
    let handle = DeviceHandle::vf(place, HandleTag { epoch: 0, generation: 0, slot: 0 });
    let target = DeviceRange::start_of(handle, bytes);
    let block = ControlBlock::Fill { pattern: Pattern::from(1), target };
    assert_eq!(card.start(EngineIndex(0), Token(0), block), Started::Done(Ok(())));
}

#[test]
fn a_card_opens_at_once_without_memory_or_threads() {
    let resident = resident_bytes();
    let running = threads();
    let cards: Vec<(Duration, SoftwareCard)> = (0..20).map(|_| open()).collect();
    let quickest = cards.iter().map(|(elapsed, _)| *elapsed).min().expect("twenty");
    assert!(quickest < Duration::from_millis(1), "it took {quickest:?}");
    let taken = resident_bytes().saturating_sub(resident);
    assert!(taken < 10 << 20, "{taken} bytes for 20 cards");
    assert_eq!(threads(), running);

    let (_, card) = &cards[0];
    fill(card, 4096);
    assert_eq!(threads(), running, "a small block needs none");
    fill(card, 64 << 20);
    let cores = std::thread::available_parallelism().expect("it has some").get();
    assert_eq!(threads(), running + cores - 1, "a large one has helpers");
    assert!(resident_bytes() > resident + (64 << 20));

    drop(cards);
    let kept = resident_bytes().saturating_sub(resident);
    assert!(kept < 10 << 20, "{kept} bytes are left of 20 cards");
}
