//! Blocks that are under way when they are aborted, or their memory goes, or their card does.

use std::fmt::Debug;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};
use spyre_card::SoftwareCard;
use spyre_hal::{
    Completions, ControlBlock, CopyDevice, CopyFromDevice, CopyPeer, CopyToDevice, Description,
    DeviceHandle, DeviceRange, EngineIndex, Fault, HandleTag, Hardware, HostBuffer, Label,
    Location, MemoryMode, Outcome, Pattern, PeerMemory, Region, RegionId, Regions, Started, Token,
    VFDeviceHandle,
};
use spyre_layout::{DmaNest, Endpoint, SpyreTensorLayout, View};
use spyre_numerics::DataFormat::IeeeFp32;

const FIRST: EngineIndex = EngineIndex(0);
const SECOND: EngineIndex = EngineIndex(1);

/// Another card, which takes bytes when the test lets it: a block that sends it some is under way for as long
/// as a test likes.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    taken: Vec<u8>,
    is_asked: bool,
    is_open: bool,
}

impl Gate {
    /// Waits until a block is under way.
    fn wait(&self) {
        self.changed.wait_while(&mut self.state.lock(), |state| !state.is_asked);
    }

    fn open(&self) {
        self.state.lock().is_open = true;
        self.changed.notify_all();
    }
}

impl Regions for Gate {
    fn mode(&self) -> MemoryMode {
        MemoryMode::Vf
    }

    fn try_allocate(&self, _: u64) -> Option<Region> {
        None
    }

    fn release(&self, _: RegionId) {}
}

impl Hardware for Gate {
    fn description(&self) -> Description {
        Description { name: "gate".to_owned(), engines: 1, is_prompt: true }
    }

    fn connect(&self, _: Arc<dyn Completions>) {}

    fn start(&self, _: EngineIndex, _: Token, block: ControlBlock) -> Started {
        drop(block);
        Started::Done(Ok(()))
    }

    fn abort(&self, _: EngineIndex, _: Token) {}

    fn reset(&self) {}
}

impl PeerMemory for Gate {
    fn accept(&self, _: DeviceRange, bytes: &[u8]) -> Outcome {
        let mut state = self.state.lock();
        state.is_asked = true;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |state| !state.is_open);
        state.taken.extend_from_slice(bytes);
        Ok(())
    }
}

fn card() -> Arc<SoftwareCard> {
    Arc::new(SoftwareCard::new(MemoryMode::Vf).with_engines(2).guarded())
}

fn range(card: &SoftwareCard, bytes: u64) -> DeviceRange {
    let region = card.try_allocate(bytes).expect("there are eight");
    let place = VFDeviceHandle { region_id: region.id.0, vf_offset: 0 };
    let tag = HandleTag { epoch: 0, generation: 0, slot: 0 };
    DeviceRange::start_of(DeviceHandle::vf(place, tag), bytes)
}

fn region(range: DeviceRange) -> RegionId {
    match range.handle.location() {
        Location::Vf(place) => RegionId(place.region_id),
        Location::Pf(_) => panic!("a VF card"),
    }
}

fn run(card: &SoftwareCard, engine: EngineIndex, block: ControlBlock) -> Outcome {
    match card.start(engine, Token(0), block) {
        Started::Done(outcome) => outcome,
        Started::Later => panic!("it is not prompt"),
    }
}

fn fill(target: DeviceRange, byte: u8) -> ControlBlock {
    ControlBlock::Fill { pattern: Pattern::from(byte), target }
}

/// Starts a block on the first engine that waits in the gate, four pieces long.
fn under_way(card: &Arc<SoftwareCard>) -> (Arc<Gate>, DeviceRange, JoinHandle<Outcome>) {
    let source = range(card, 1 << 20);
    assert_eq!(run(card, FIRST, fill(source, 7)), Ok(()));
    let gate = Arc::new(Gate::default());
    let copy = CopyPeer { source, peer: gate.clone(), target: source };
    let own = card.clone();
    let block = ControlBlock::CopyPeer(Box::new(copy));
    let runs = thread::spawn(move || run(&own, FIRST, block));
    gate.wait();
    (gate, source, runs)
}

fn end(gate: &Gate, runs: JoinHandle<Outcome>) -> Outcome {
    gate.open();
    runs.join().expect("no panic")
}

fn is_lost(outcome: &Outcome) -> bool {
    matches!(outcome, Err(Fault::DeviceLost { .. }))
}

#[test]
fn an_abort_ends_a_copy_between_two_pieces() {
    let card = card();
    let (gate, source, runs) = under_way(&card);
    card.abort(SECOND, Token(0));
    card.abort(FIRST, Token(0));
    assert_eq!(run(&card, SECOND, fill(range(&card, 4096), 1)), Ok(()), "the other engine goes on");
    let outcome = end(&gate, runs);
    assert!(matches!(outcome, Err(Fault::Hung { .. })), "{outcome:?}");
    assert!(gate.state.lock().taken.len() < 1 << 20);
    assert_eq!(run(&card, FIRST, fill(source, 1)), Ok(()), "and so does this one");
}

#[test]
fn an_abort_of_another_block_ends_nothing() {
    let card = card();
    let (gate, _, runs) = under_way(&card);
    card.abort(FIRST, Token(1));
    assert_eq!(end(&gate, runs), Ok(()));
    assert_eq!(gate.state.lock().taken.len(), 1 << 20);
}

#[test]
fn a_region_that_is_released_stays_for_the_block_that_reads_it() {
    let card = card();
    let (gate, source, runs) = under_way(&card);
    card.release(region(source));
    assert_eq!(region(range(&card, 1 << 20)), region(source), "it is given out again");
    assert_eq!(run(&card, SECOND, fill(source, 9)), Ok(()));
    assert_eq!(end(&gate, runs), Ok(()));
    assert!(gate.state.lock().taken[..] == [7; 1 << 20], "the bytes of its own life");
}

#[test]
fn a_reset_waits_for_what_is_under_way_and_ends_it() {
    let card = card();
    let (gate, source, runs) = under_way(&card);
    let resets = thread::spawn({
        let card = card.clone();
        move || card.reset()
    });
    // From when the reset has begun, blocks are refused.
    while run(&card, SECOND, fill(source, 9)).is_ok() {
        thread::yield_now();
    }
    assert!(is_lost(&card.accept(source, &[0; 1 << 20])));
    assert!(!resets.is_finished());
    assert!(is_lost(&end(&gate, runs)));
    resets.join().expect("no panic");
    assert!(matches!(run(&card, FIRST, fill(source, 1)), Err(Fault::IllegalAccess { .. })));
    assert_eq!(run(&card, FIRST, fill(range(&card, 4096), 1)), Ok(()));
}

#[test]
fn a_card_that_is_lost_ends_every_block_until_it_is_reset() {
    let card = card();
    let (gate, source, runs) = under_way(&card);
    card.lose("a test pulled it out");
    card.lose("and once more");
    card.abort(FIRST, Token(0));
    for engine in [SECOND, SECOND] {
        let fault = run(&card, engine, fill(source, 1)).expect_err("it is lost");
        assert!(fault.to_string().contains("pulled it out"), "{fault}");
    }
    assert!(is_lost(&end(&gate, runs)));
    assert!(is_lost(&run(&card, FIRST, fill(source, 1))));
    card.reset();
    assert_eq!(run(&card, FIRST, fill(range(&card, 4096), 1)), Ok(()));
}

#[test]
fn many_resets_at_once_leave_a_card_usable() {
    let card = card();
    let resets: Vec<_> = (0..4)
        .map(|_| {
            let card = card.clone();
            thread::spawn(move || (0..50).for_each(|_| card.reset()))
        })
        .collect();
    resets.into_iter().for_each(|reset| reset.join().expect("no panic"));
    assert_eq!(run(&card, FIRST, fill(range(&card, 4096), 1)), Ok(()));
}

/// Starts a block again and again, until an abort has come in the midst of it.
fn abort_in_the_midst(card: &Arc<SoftwareCard>, block: impl Fn() -> ControlBlock) {
    let hung = (0..50).find_map(|_| {
        let own = card.clone();
        let block = block();
        let runs = thread::spawn(move || run(&own, FIRST, block));
        while !runs.is_finished() {
            card.abort(FIRST, Token(0));
            thread::yield_now();
        }
        runs.join().expect("no panic").err()
    });
    assert!(matches!(hung, Some(Fault::Hung { .. })), "{hung:?}");
}

#[test]
fn an_abort_ends_a_large_fill() {
    let card = card();
    let target = range(&card, 256 << 20);
    let pattern = Pattern::new(&[1, 2, 3]).expect("three bytes");
    abort_in_the_midst(&card, || ControlBlock::Fill { pattern, target });
}

#[test]
fn an_abort_ends_a_large_copy_and_frees_its_buffer() {
    let card = card();
    let source = range(&card, 256 << 20);
    let host = HostBuffer::zeroed(256 << 20);
    abort_in_the_midst(&card, || {
        let target = host.lend_to_write().expect("it is back each time");
        ControlBlock::CopyFromDevice(Box::new(CopyFromDevice { source, target, nest: None }))
    });
    assert!(host.write().is_ok());
}

#[test]
fn an_abort_ends_a_large_nest() {
    let card = card();
    let source = View::contiguous(&[1 << 12, 1 << 12]).expect("a view");
    let layout = SpyreTensorLayout::contiguous(source.size(), IeeeFp32).expect("a layout");
    let ends = (Endpoint::host(&source, IeeeFp32), Endpoint::device(&source, &layout));
    let nest = Arc::new(DmaNest::derive(ends.0, ends.1).expect("one size"));
    let target = range(&card, layout.device_bytes() as u64);
    let host = HostBuffer::zeroed(nest.source_reach_bytes());
    abort_in_the_midst(&card, || {
        let source = host.lend_to_read().expect("no block writes it");
        let nest = Some(nest.clone());
        ControlBlock::CopyToDevice(Box::new(CopyToDevice { source, target, nest }))
    });
}

#[test]
fn ranges_that_overlap_are_not_copied() {
    let card = card();
    let all = range(&card, 4096);
    let [source, target] = [0, 1].map(|offset| DeviceRange { offset, bytes: 100, ..all });
    let copy = CopyDevice { source, target, nest: None };
    let outcome = run(&card, FIRST, ControlBlock::CopyDevice(Box::new(copy)));
    assert!(matches!(&outcome, Err(Fault::CopyFailed { why }) if why.contains("overlap")));
}

#[test]
fn a_card_can_be_its_own_peer() {
    let card = card();
    let all = range(&card, 3 << 20);
    assert_eq!(run(&card, FIRST, fill(DeviceRange { bytes: 1 << 20, ..all }, 5)), Ok(()));
    let source = DeviceRange { bytes: 1 << 20, ..all };
    let target = DeviceRange { offset: 2 << 20, ..source };
    let copy = CopyPeer { source, peer: card.clone(), target };
    assert_eq!(run(&card, FIRST, ControlBlock::CopyPeer(Box::new(copy))), Ok(()));
    let host = HostBuffer::zeroed(1 << 20);
    let lent = host.lend_to_write().expect("no block uses it");
    let back = CopyFromDevice { source: target, target: lent, nest: None };
    assert_eq!(run(&card, FIRST, ControlBlock::CopyFromDevice(Box::new(back))), Ok(()));
    assert!(host.read().expect("it is back")[..] == [5; 1 << 20]);
}

#[test]
fn what_a_card_says_of_itself_tells_no_address() {
    const SECRET: u64 = 0x5ec_2e70_0000;
    let card = SoftwareCard::new(MemoryMode::Vf).with_base_address(SECRET);
    let own = range(&card, 1 << 20);
    let outside = DeviceRange { bytes: 2 << 20, ..own };
    let faults = [
        run(&card, FIRST, fill(outside, 1)),
        run(&card, FIRST, ControlBlock::launch(own.handle, Label::default())),
        card.accept(outside, &[1]),
        card.accept(own, &[1]),
    ];
    let said: Vec<&dyn Debug> = vec![&card, &faults];
    let text = format!("{said:?} {said:#?} {:?}", card.description());
    assert!(text.contains("IllegalAccess") && text.contains("BadProgram"));
    for address in host_addresses().into_iter().chain([SECRET]) {
        let decimal = address.to_string();
        assert!(!text.contains(&format!("{address:x}")) && !text.contains(&decimal), "{text}");
    }
}

/// Addresses at which mappings of this process start or end.
fn host_addresses() -> Vec<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    let addresses = maps.lines().filter_map(|line| line.split_once(' '));
    let ends = addresses.flat_map(|(ends, _)| ends.split('-'));
    ends.filter_map(|end| u64::from_str_radix(end, 16).ok()).filter(|end| *end > 1 << 32).collect()
}
