use std::sync::atomic::{AtomicU64, Ordering};

use spyre_hal::{ControlBlock, DeviceHandle, HandleTag, Label, VFDeviceHandle};

use super::*;
use crate::Priority;
use crate::stream::ring::RingSizes;
use crate::stream::table::{Entry, StreamTable};

const ENGINE: EngineIndex = EngineIndex(0);
const LIMIT: u64 = 10;

/// A clock that a test sets.
#[derive(Debug, Default)]
struct Clock(AtomicU64);

impl Env for Clock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn spawn(&self, _: String, _: Box<dyn FnOnce() + Send>) -> bool {
        false
    }

    fn park(&self) {}
}

/// A core of a device that is prompt or not, with one stream on which so many blocks are queued.
fn core_with(blocks: u64, clock: &Arc<Clock>, is_prompt: bool) -> (Core, Arc<Lane>) {
    let arrivals = Arc::new(Arrivals::new());
    let env = Arc::clone(clock) as Arc<dyn Env>;
    let mut core = Core::new(env, Arc::clone(&arrivals), Policy::RoundRobin, 1, is_prompt);
    let opened = StreamTable::new().open(Priority::Low, RingSizes { first: 8, bound: 8 });
    let lane = opened.expect("there is room for a lane").0;
    core.add(Arc::clone(&lane));
    for _ in 0..blocks {
        let reservation = lane.ring.reserve(1).expect("there is room");
        lane.ring.publish(&reservation, 0, Entry { block: launch(), queued_at: 0 });
    }
    arrivals.list(&lane);
    (core, lane)
}

fn launch() -> ControlBlock {
    let place = VFDeviceHandle { region_id: 0, vf_offset: 0 };
    let tag = HandleTag { epoch: 0, generation: 0, slot: 0 };
    ControlBlock::launch(DeviceHandle::vf(place, tag), Label::default())
}

fn carry_out(run: &mut Run) {
    while let Some(entry) = run.entries.pop() {
        run.notes.push(Note::new(&entry, 0));
    }
}

#[test]
fn the_watchdog_leaves_a_thread_alone_that_is_about_to_start_a_prompt_block() {
    let clock = Arc::new(Clock::default());
    let (mut core, _lane) = core_with(1, &clock, true);
    let mut run = Run::default();
    core.pick(ENGINE, None, &mut run).expect("a block");

    clock.0.store(100 * LIMIT, Ordering::Relaxed);

    assert_eq!(core.overdue(LIMIT), []);
    assert_eq!(core.overdue(LIMIT), []);
}

#[test]
fn a_block_that_was_given_up_and_ends_after_all_counts_once() {
    let clock = Arc::new(Clock::default());
    let (mut core, lane) = core_with(2, &clock, false);
    let mut run = Run::default();
    let hung = core.pick(ENGINE, None, &mut run).expect("a block");
    clock.0.store(100 * LIMIT, Ordering::Relaxed);
    assert_eq!(core.overdue(LIMIT), [Overdue::Abort(ENGINE)]);
    assert_eq!(core.overdue(LIMIT), [Overdue::Lost(ENGINE)]);

    carry_out(&mut run);
    core.finish(ENGINE, hung.token, End::Done, &mut run);
    let cancelled = core.pick(ENGINE, None, &mut run).expect("the next block");
    assert!(cancelled.is_cancelled);
    carry_out(&mut run);
    core.finish(ENGINE, cancelled.token, End::Done, &mut run);

    assert_eq!(lane.completed(), 2);
}
