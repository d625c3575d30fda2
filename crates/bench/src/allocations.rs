//! Device memory: the allocator against a bare list of free blocks, and against a known allocator.

use std::hint::black_box;
use std::sync::Arc;

use offset_allocator::{Allocation, Allocator};
use parking_lot::Mutex;
use spyre_flex::{DeviceHandle, FlexAllocator, Idle, Settings, StreamIndex, VirtualRegions};

use crate::{Bar, Benchmark};

const UNIT: u64 = 128;
const LIVE: usize = 10_000;
const FULL: f64 = 0.72;
const STREAM: StreamIndex = StreamIndex(0);

/// Every benchmark of device memory.
pub fn all<'a>() -> Vec<Benchmark<'a>> {
    vec![hot_pair(), mixed_trace()]
}

/// One size, freed and asked for again.
fn hot_pair<'a>() -> Benchmark<'a> {
    const REPEATS: usize = 100_000;
    let allocator = open(1 << 30);
    let ours = move || {
        for _ in 0..REPEATS {
            let handle = allocator.allocate(black_box(4096), STREAM).expect("memory");
            allocator.free(black_box(handle)).expect("live");
        }
    };
    let classes = Mutex::new(vec![vec![7_u32; 16]; 4097]);
    let peer = move || {
        for _ in 0..REPEATS {
            let slot = classes.lock()[black_box(32)].pop().expect("a block");
            classes.lock()[black_box(32)].push(black_box(slot));
        }
    };
    let name = "allocate + free, hot, x100000";
    Benchmark::new(name, Bar::AtMost(3.0), ours, "size-class pop + push", peer)
}

/// 128 bytes to 64 MB, 10,000 of them live, the memory 72 % full.
fn mixed_trace<'a>() -> Benchmark<'a> {
    let sizes: Vec<u64> = (0..).map_while(SizeSequence::size).take(LIVE).collect();
    let total_units = (sizes.iter().sum::<u64>() as f64 / FULL) as u64 / UNIT;
    let mut ours = Ours { allocator: open(total_units * UNIT), live: Vec::new() };
    let mut peer = Peer {
        allocator: Allocator::with_max_allocs(total_units as u32, 4 * LIVE as u32),
        live: Vec::new(),
    };
    ours.fill(&sizes);
    peer.fill(&sizes);
    let mut our_trace = SizeSequence::new();
    let mut peer_trace = SizeSequence::new();
    Benchmark::new(
        "allocate + free, mixed, 72 % full, x20000",
        Bar::AtMost(2.0),
        move || ours.run(&mut our_trace),
        "offset-allocator",
        move || peer.run(&mut peer_trace),
    )
}

fn open(bytes: u64) -> FlexAllocator {
    let regions = Arc::new(VirtualRegions::new(1, bytes));
    let settings = Settings { region_bytes: vec![bytes], ..Settings::default() };
    FlexAllocator::new(regions, Arc::new(Idle), settings)
}

/// Requests that both allocators get: slots to free, and bytes to ask for.
struct SizeSequence {
    at: u64,
}

impl SizeSequence {
    const STEPS: u64 = 20_000;

    fn new() -> Self {
        Self { at: LIVE as u64 }
    }

    fn random(seed: u64) -> u64 {
        let mut word = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word ^ (word >> 29)
    }

    /// Sizes as likely in every octave from 128 bytes to 64 MB.
    fn size(seed: u64) -> Option<u64> {
        let octave = Self::random(seed) % 19;
        let units = (1 << octave) + Self::random(seed ^ 0xABCD) % (1 << octave);
        Some(units * UNIT)
    }

    fn steps(&mut self) -> impl Iterator<Item = (usize, u64)> + use<> {
        let start = self.at;
        self.at += Self::STEPS;
        // Sizes come back in the order they were first given, so that the memory stays as full.
        (start..self.at).map(|at| {
            let slot = at as usize % LIVE;
            (slot, Self::size(at % LIVE as u64 * 7919 % LIVE as u64).expect("a size"))
        })
    }
}

struct Ours {
    allocator: FlexAllocator,
    live: Vec<DeviceHandle>,
}

impl Ours {
    fn fill(&mut self, sizes: &[u64]) {
        let allocate = |&bytes: &u64| self.allocator.allocate(bytes, STREAM).expect("memory");
        self.live = sizes.iter().map(allocate).collect();
    }

    /// A request that fails is a failure of the benchmark.
    fn run(&mut self, trace: &mut SizeSequence) {
        for (slot, bytes) in trace.steps() {
            self.allocator.free(self.live[slot]).expect("live");
            self.live[slot] = self.allocator.allocate(bytes, STREAM).expect("memory");
        }
    }
}

struct Peer {
    allocator: Allocator,
    live: Vec<Option<Allocation>>,
}

impl Peer {
    fn fill(&mut self, sizes: &[u64]) {
        let allocate = |bytes: &u64| self.allocator.allocate((bytes / UNIT) as u32);
        self.live = sizes.iter().map(allocate).collect();
    }

    /// Some of its requests fail: their slots stay empty.
    fn run(&mut self, trace: &mut SizeSequence) {
        for (slot, bytes) in trace.steps() {
            if let Some(old) = self.live[slot].take() {
                self.allocator.free(old);
            }
            self.live[slot] = self.allocator.allocate((bytes / UNIT) as u32);
        }
    }
}
