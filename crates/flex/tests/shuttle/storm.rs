//! Threads that do anything, in any order: whatever it was, it ends.

use std::sync::Arc;

use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::spawn;
use spyre_flex::{Event, FlexStream, Policy};
use spyre_hal::{ControlBlock, DeviceRange, Hardware, HostCallback, NullCard};

use crate::bench::{Bench, Finisher, INLINE, PATIENT, WORKERS, Way, check, deferred, fill, prompt};
use crate::order_card::OrderCard;

/// Things that each thread does.
const THINGS: usize = 5;

fn ways() -> [Way; 4] {
    let drain = Way { policy: Policy::DrainOne, ..WORKERS };
    let urgent = Way { policy: Policy::Priority, ..PATIENT };
    [INLINE, Way { policy: Policy::DrainOne, ..INLINE }, drain, urgent]
}

#[test]
fn a_storm_on_a_prompt_card_passes() {
    check("storm, prompt", &ways(), 1_500, |way| {
        rage(Bench::open(way, prompt()));
    });
}

#[test]
fn a_storm_on_three_prompt_engines_passes() {
    check("storm, three engines", &ways(), 1_000, |way| {
        rage(Bench::open(way, OrderCard::new(NullCard::with_engines(3))));
    });
}

#[test]
fn a_storm_on_a_card_that_takes_its_time_passes() {
    check("storm, later", &ways(), 1_000, |way| {
        let bench = Bench::open(way, deferred(2));
        let device = Finisher::start(&bench.card);
        rage(bench);
        device.end();
    });
}

fn rage<H: Hardware + 'static>(bench: Bench<H>) {
    let memory = bench.memory();
    let streams: [Arc<FlexStream>; 2] = [bench.stream(), bench.stream()];
    let event = Arc::new(Event::new());
    let threads = [0, 1].map(|_| {
        let streams = streams.clone();
        let event = Arc::clone(&event);
        spawn(move || (0..THINGS).for_each(|_| do_anything(&streams, &event, memory)))
    });
    drop((streams, event));
    for thread in threads {
        thread.join().expect("a thread ends");
    }
    bench.context.synchronize().expect("no block fails");
    bench.close();
}

fn do_anything(streams: &[Arc<FlexStream>; 2], event: &Event, memory: DeviceRange) {
    let mut random = thread_rng();
    let stream = &streams[random.gen_range(0..2)];
    let callback = || ControlBlock::HostCallback(HostCallback::new(|| Ok(())));
    let queued = match random.gen_range(0..8) {
        0 => stream.submit([fill(1, memory)]).map(drop),
        1 => stream.submit([fill(1, memory), fill(2, memory), fill(3, memory)]).map(drop),
        2 => stream.submit([fill(1, memory), callback(), fill(2, memory)]).map(drop),
        3 => stream.record(event).map(drop),
        4 => stream.wait(event),
        5 => stream.synchronize(),
        6 => stream.query().map(drop),
        _ => event.synchronize(),
    };
    queued.expect("nothing fails");
}
