//! A block that comes while its stream is taken off the list is not forgotten.

use std::sync::Arc;

use super::{explore, lane, machine, publish};
use crate::Policy;
use crate::core::Core;
use crate::scheduler::arrivals::Arrivals;
use crate::stream::table::StreamTable;
use crate::sync::Ordering;

/// Looks after which an empty stream is taken off the list, in models.
const LOOKS: usize = 2;

/// A core with two streams that were found empty often: at the next look, one is delisted.
fn delist_against(producers: usize) {
    let table = StreamTable::new();
    let arrivals = Arc::new(Arrivals::new());
    let lanes = [lane(&table), lane(&table)];
    let mut core = Core::new(machine(), Arc::clone(&arrivals), Policy::RoundRobin, 1, false);
    for lane in &lanes {
        core.add(Arc::clone(lane));
        arrivals.list(lane);
    }
    (1..LOOKS).for_each(|_| assert!(!core.has_ready()));

    let threads: Vec<_> = (0..producers)
        .map(|_| {
            let lane = Arc::clone(&lanes[1]);
            let arrivals = Arc::clone(&arrivals);
            loom::thread::spawn(move || {
                publish(&lane);
                arrivals.list(&lane);
            })
        })
        .collect();
    core.has_ready();
    threads.into_iter().for_each(|thread| thread.join().expect("a producer ends"));

    assert!(core.has_ready(), "the block was forgotten");
    assert!(lanes[1].is_listed.load(Ordering::Relaxed));
}

#[test]
fn loom_a_block_puts_its_stream_back_on_the_list() {
    explore("delisting, one producer", None, || delist_against(1));
}

#[test]
fn loom_two_blocks_put_their_stream_back_once() {
    explore("delisting, two producers", Some(3), || delist_against(2));
}
