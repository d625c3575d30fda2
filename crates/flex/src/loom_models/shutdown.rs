//! A worker that goes to sleep while the card is closed ends all the same.

use std::sync::Arc;

use super::{explore, lane, machine, publish};
use crate::scheduler::bell::Bell;
use crate::stream::ring::Cursor;
use crate::stream::table::{Lane, StreamTable};
use crate::sync::{AtomicBool, Mutex, Ordering};

/// A worker's life as in the scheduler, with a lane in the place of the core.
struct Closing {
    bell: Bell,
    is_closing: AtomicBool,
    lane: Arc<Lane>,
    core: Mutex<Cursor>,
}

impl Closing {
    fn work(&self) {
        while !self.is_at_its_end() {
            self.carry_out();
            self.bell.sleep(0, &*machine(), || self.has_work() || self.is_at_its_end());
        }
        self.bell.ring_all();
    }

    fn carry_out(&self) {
        while self.lane.ring.pop(&mut self.core.lock()).is_some() {
            self.lane.complete(self.lane.completed() + 1);
        }
    }

    fn has_work(&self) -> bool {
        self.lane.ring.is_ready(&mut self.core.lock())
    }

    fn is_at_its_end(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst) && {
            let _core = self.core.lock();
            self.lane.is_done(self.lane.ring.reserved())
        }
    }

    fn close(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
        self.bell.ring_all();
    }
}

fn close_after(blocks: usize) {
    let closing = Arc::new(Closing {
        bell: Bell::default(),
        is_closing: AtomicBool::new(false),
        lane: lane(&StreamTable::new()),
        core: Mutex::default(),
    });
    let worker = loom::thread::spawn({
        let closing = Arc::clone(&closing);
        move || closing.work()
    });
    for _ in 0..blocks {
        publish(&closing.lane);
        closing.bell.ring();
    }
    closing.close();
    worker.join().expect("the worker ends");
    assert_eq!(closing.lane.completed(), blocks as u64);
}

#[test]
fn loom_a_worker_that_goes_to_sleep_hears_of_the_end() {
    explore("shutdown, idle", None, || close_after(0));
}

#[test]
fn loom_a_worker_ends_after_the_last_block_is_done() {
    explore("shutdown, with a block queued", Some(3), || close_after(1));
}
