//! Pages that go back to the host: all that are free, each once, and never one in use.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use parking_lot::Mutex;
use proptest::prelude::*;
use spyre_flex::{
    BlockState, DeviceHandle, Error, FlexAllocator, Idle, LastUse, Settings, StreamIndex,
    Timelines, VirtualRegions,
};
use spyre_hal::{Location, MemoryMode, Region, RegionId, Regions};

const UNIT: u64 = 128;
const PAGE: u64 = 4096;
const REGION: u64 = 4 << 20;
const REGIONS: u16 = 3;
const STREAM: StreamIndex = StreamIndex(0);

/// Regions that remember which bytes were written since they were acquired or discarded.
#[derive(Debug)]
struct Host {
    regions: VirtualRegions,
    /// The last writer of every 128 bytes; 0 after a discard.
    written: Vec<AtomicU64>,
    discards: Mutex<Vec<(u16, u64, u64)>>,
}

impl Host {
    fn new() -> Arc<Self> {
        let units = u64::from(REGIONS) * REGION / UNIT;
        Arc::new(Self {
            regions: VirtualRegions::new(REGIONS, REGION),
            written: (0..units).map(|_| AtomicU64::new(0)).collect(),
            discards: Mutex::default(),
        })
    }

    fn units(&self, region: u16, offset: u64, bytes: u64) -> &[AtomicU64] {
        let start = (u64::from(region) * REGION + offset) / UNIT;
        &self.written[start as usize..(start + bytes / UNIT) as usize]
    }

    fn write(&self, (handle, bytes): (DeviceHandle, u64), value: u64) {
        let (region, offset) = place(handle);
        for unit in self.units(region, offset, bytes) {
            unit.store(value, Ordering::Relaxed);
        }
    }

    fn reads(&self, (handle, bytes): (DeviceHandle, u64), value: u64) -> bool {
        let (region, offset) = place(handle);
        self.units(region, offset, bytes).iter().all(|unit| unit.load(Ordering::Relaxed) == value)
    }
}

impl Regions for Host {
    fn mode(&self) -> MemoryMode {
        MemoryMode::Vf
    }

    fn try_allocate(&self, bytes: u64) -> Option<Region> {
        self.regions.try_allocate(bytes)
    }

    /// Its pages go with it.
    fn release(&self, region: RegionId) {
        self.units(region.0, 0, REGION).iter().for_each(|unit| unit.store(0, Ordering::Relaxed));
        self.regions.release(region);
    }

    fn discard(&self, region: RegionId, offset_bytes: u64, bytes: u64) {
        assert!(bytes > 0 && offset_bytes.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE));
        let units = self.units(region.0, offset_bytes, bytes);
        for page in units.chunks((PAGE / UNIT) as usize) {
            let is_clean = page.iter().all(|unit| unit.load(Ordering::Relaxed) == 0);
            assert!(!is_clean, "a page is discarded a second time");
        }
        units.iter().for_each(|unit| unit.store(0, Ordering::Relaxed));
        self.discards.lock().push((region.0, offset_bytes, bytes));
    }
}

/// A stream that is done when the test says so.
#[derive(Debug, Default)]
struct Clock(AtomicU64);

impl Timelines for Clock {
    fn is_done(&self, last_use: LastUse) -> bool {
        last_use.sequence <= self.0.load(Ordering::Relaxed)
    }
}

fn place(handle: DeviceHandle) -> (u16, u64) {
    match handle.location() {
        Location::Vf(place) => (place.region_id, place.vf_offset),
        Location::Pf(_) => panic!("a VF card"),
    }
}

fn open(host: &Arc<Host>, timelines: Arc<dyn Timelines>) -> FlexAllocator {
    let settings = Settings { region_bytes: vec![REGION], ..Settings::default() };
    FlexAllocator::new(host.clone(), timelines, settings)
}

/// One call of a program.
#[derive(Clone, Debug)]
enum Step {
    Allocate { bytes: u64 },
    Use { which: usize },
    Free { which: usize },
    Advance,
    EmptyCache,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![
        4 => 1..20 * PAGE,
        2 => 1..REGION / 4,
        1 => Just(PAGE),
        1 => Just(REGION),
    ];
    let step = prop_oneof![
        6 => bytes.prop_map(|bytes| Step::Allocate { bytes }),
        1 => any::<usize>().prop_map(|which| Step::Use { which }),
        5 => any::<usize>().prop_map(|which| Step::Free { which }),
        1 => Just(Step::Advance),
        1 => Just(Step::EmptyCache),
    ];
    prop::collection::vec(step, 1..120)
}

/// A program, and what it knows of its blocks.
struct Program {
    host: Arc<Host>,
    clock: Arc<Clock>,
    allocator: FlexAllocator,
    live: Vec<(DeviceHandle, u64)>,
    writes: u64,
}

impl Program {
    fn new() -> Self {
        let host = Host::new();
        let clock = Arc::new(Clock::default());
        let allocator = open(&host, clock.clone());
        Self { host, clock, allocator, live: Vec::new(), writes: 0 }
    }

    fn run(&mut self, step: &Step) -> Result<(), Error> {
        match *step {
            Step::Allocate { bytes } => {
                let Ok(handle) = self.allocator.allocate(bytes, STREAM) else { return Ok(()) };
                self.live.push((handle, bytes.next_multiple_of(UNIT)));
            }
            Step::Use { which } if !self.live.is_empty() => {
                self.writes += 1;
                let last_use = LastUse { stream: StreamIndex(1), sequence: self.writes };
                self.allocator.record_use(self.live[which % self.live.len()].0, last_use)?;
            }
            Step::Free { which } if !self.live.is_empty() => {
                let (handle, _) = self.live.swap_remove(which % self.live.len());
                self.allocator.free(handle)?;
            }
            Step::Advance => self.clock.0.store(self.writes, Ordering::Relaxed),
            Step::EmptyCache => self.allocator.empty_cache(),
            _ => {}
        }
        Ok(())
    }

    /// Live blocks hold 1 and up, in their order.
    fn write_all(&self) {
        for (&block, value) in self.live.iter().zip(1..) {
            self.host.write(block, value);
        }
    }

    /// Bytes of blocks that are live or cached.
    fn in_use(&self) -> BTreeSet<(u16, u64, u64)> {
        let blocks = self.allocator.snapshot().into_iter();
        let blocks = blocks.filter(|block| block.state != BlockState::Free);
        blocks.map(|block| (block.region, block.offset_bytes, block.bytes)).collect()
    }

    /// Every page that lies in a free block is with the host.
    fn free_pages_are_clean(&self) -> bool {
        let blocks = self.allocator.snapshot().into_iter();
        blocks.filter(|block| block.state == BlockState::Free).all(|block| {
            let start = block.offset_bytes.next_multiple_of(PAGE);
            let end = (block.offset_bytes + block.bytes) / PAGE * PAGE;
            let bytes = end.saturating_sub(start);
            let units = self.host.units(block.region, start.min(end), bytes);
            units.iter().all(|unit| unit.load(Ordering::Relaxed) == 0)
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(400)
    })]

    #[test]
    fn only_free_pages_are_discarded_and_all_of_them(steps in steps()) {
        let mut program = Program::new();
        for step in &steps {
            let before = program.live.clone();
            program.run(step).expect("handles are live");
            let discards = std::mem::take(&mut *program.host.discards.lock());

            // What was live before and still is keeps its bytes.
            for (&block, value) in before.iter().zip(1..) {
                let is_gone = !program.live.contains(&block);
                let is_whole = program.host.reads(block, value);
                prop_assert!(is_gone || is_whole, "{step:?} lost {block:?}");
            }
            // An allocation may discard what it then takes; nothing else may.
            let new = program.live.last().filter(|block| !before.contains(block));
            let new = new.map(|&(handle, bytes)| (place(handle).0, place(handle).1, bytes));
            for (region, offset, bytes) in discards {
                for block in program.in_use().into_iter().filter(|&block| Some(block) != new) {
                    let (other, start, length) = block;
                    let is_apart = other != region || start + length <= offset;
                    prop_assert!(is_apart || offset + bytes <= start, "{step:?} discarded {offset}+{bytes} of {block:?}");
                }
            }
            program.write_all();
            prop_assert!(program.free_pages_are_clean(), "{step:?} left a free page behind");
        }
    }
}

#[test]
fn a_large_block_goes_back_when_it_is_freed() -> Result<(), Error> {
    let host = Host::new();
    let allocator = open(&host, Arc::new(Idle));
    let bytes = 1 << 20;
    let handle = allocator.allocate(bytes, STREAM)?;
    host.write((handle, bytes), 1);
    allocator.free(handle)?;
    assert_eq!(*host.discards.lock(), [(0, 0, bytes)]);
    Ok(())
}

#[test]
fn small_blocks_go_back_in_one_piece_when_the_cache_does() -> Result<(), Error> {
    let host = Host::new();
    let allocator = open(&host, Arc::new(Idle));
    let handles: Result<Vec<_>, _> = (0..100).map(|_| allocator.allocate(1000, STREAM)).collect();
    for handle in handles? {
        host.write((handle, 1024), 1);
        allocator.free(handle)?;
    }
    assert_eq!(*host.discards.lock(), []);
    allocator.empty_cache();
    assert_eq!(*host.discards.lock(), [(0, 0, 100 * 1024)]);
    allocator.empty_cache();
    assert_eq!(host.discards.lock().len(), 1);
    Ok(())
}

#[test]
fn a_block_that_a_stream_uses_does_not_go_back() -> Result<(), Error> {
    let host = Host::new();
    let clock = Arc::new(Clock::default());
    let allocator = open(&host, clock.clone());
    let handle = allocator.allocate(1 << 20, STREAM)?;
    host.write((handle, 1 << 20), 1);
    allocator.record_use(handle, LastUse { stream: STREAM, sequence: 1 })?;
    allocator.free(handle)?;
    allocator.empty_cache();
    assert_eq!(*host.discards.lock(), []);

    clock.0.store(1, Ordering::Relaxed);
    allocator.empty_cache();
    assert_eq!(*host.discards.lock(), [(0, 0, 1 << 20)]);
    Ok(())
}

#[test]
fn no_thread_loses_what_it_writes() {
    let host = Host::new();
    let allocator = open(&host, Arc::new(Idle));
    thread::scope(|scope| {
        for thread in 1..=4 {
            let host = &host;
            let allocator = &allocator;
            scope.spawn(move || {
                for step in 0..2000 {
                    let units = 1 + (step * 7919 + thread * 104_729) % (REGION / UNIT / 4);
                    let Ok(handle) = allocator.allocate(units * UNIT, STREAM) else { continue };
                    host.write((handle, units * UNIT), thread);
                    thread::yield_now();
                    assert!(host.reads((handle, units * UNIT), thread));
                    allocator.free(handle).expect("live");
                    if step % 64 == 0 {
                        allocator.empty_cache();
                    }
                }
            });
        }
    });
}
