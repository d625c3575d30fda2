//! Small models of what threads do to each other, each in every interleaving that the memory model
//! allows. A model that says so is bounded: in every interleaving with so many preemptions.

mod bell;
mod combining;
mod delisting;
mod failure_epoch;
mod lease;
mod ring;
mod shutdown;
mod stream_allocation_cache;
mod timeline;
mod watch;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use spyre_hal::{ControlBlock, DeviceHandle, HandleTag, Label, VFDeviceHandle};

use crate::stream::ring::RingSizes;
use crate::stream::table::{Entry, Lane, StreamTable};
use crate::sync::fence;
use crate::{Machine, Priority};

/// All interleavings of a model, or those with at most so many preemptions.
#[expect(clippy::print_stdout, reason = "how much was explored is the result")]
fn explore(name: &str, preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let start = Instant::now();
    let executions = Arc::new(AtomicUsize::new(0));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 10_000;
    let counted = Arc::clone(&executions);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let count = executions.load(Ordering::Relaxed);
    let took = start.elapsed().as_secs_f64();
    let bound = preemptions.map_or("all".to_owned(), |most| format!("{most} preemptions"));
    println!("loom: {name}: {count} executions ({bound}) in {took:.1} s");
}

/// The clock is not part of any model: one for all executions.
fn machine() -> Arc<Machine> {
    static MACHINE: OnceLock<Arc<Machine>> = OnceLock::new();
    Arc::clone(MACHINE.get_or_init(Arc::default))
}

fn lane(table: &StreamTable) -> Arc<Lane> {
    let opened = table.open(Priority::Low, RingSizes { first: 2, bound: 4 });
    opened.expect("there is room for a lane").0
}

fn launch() -> ControlBlock {
    let place = VFDeviceHandle { region_id: 0, vf_offset: 0 };
    let tag = HandleTag { epoch: 0, generation: 0, slot: 0 };
    ControlBlock::launch(DeviceHandle::vf(place, tag), Label::default())
}

/// Publishes a block as a producer does, before it has a thread look for blocks.
fn publish(lane: &Lane) {
    let reservation = lane.ring.reserve(1).expect("the model fits the ring");
    lane.ring.publish(&reservation, 0, Entry { block: launch(), queued_at: 0 });
    fence(Ordering::SeqCst);
}
