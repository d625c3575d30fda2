//! A host that waits for a block learns of its end, whenever it begins to wait.

use std::sync::Arc;

use spyre_hal::{EngineIndex, StreamPoint};

use super::{explore, lane, machine, publish};
use crate::core::{Core, End, Note, Run};
use crate::scheduler::arrivals::Arrivals;
use crate::stream::table::{Lane, StreamTable};
use crate::sync::{Mutex, current, park};
use crate::{Policy, scheduler};

const ENGINE: EngineIndex = EngineIndex(0);

struct Shared {
    core: Mutex<Core>,
    lane: Arc<Lane>,
}

impl Shared {
    /// A core with one lane, on which blocks are queued.
    fn with_blocks(blocks: usize) -> Arc<Self> {
        let arrivals = Arc::new(Arrivals::new());
        let lane = lane(&StreamTable::new());
        let mut core = Core::new(machine(), Arc::clone(&arrivals), Policy::RoundRobin, 1, false);
        core.add(Arc::clone(&lane));
        (0..blocks).for_each(|_| publish(&lane));
        arrivals.list(&lane);
        Arc::new(Self { core: Mutex::new(core), lane })
    }

    /// Carries out blocks like the scheduler's `drive`: early publication without the lock, then
    /// the end with it.
    fn carry_out_all(&self) {
        let mut run = Run::default();
        let mut ended = None;
        loop {
            let mut core = self.core.lock();
            if let Some(token) = ended.take() {
                core.finish(ENGINE, token, End::Done, &mut run);
            }
            let picked = core.pick(ENGINE, None, &mut run);
            let wakes = core.take_wakes();
            drop(core);
            scheduler::wake(wakes);
            let Some(picked) = picked else { return };
            let entry = run.entries.pop().expect("a run has a block");
            run.notes.push(Note::new(&entry, 0));
            self.lane.complete(picked.first_sequence);
            ended = Some(picked.token);
        }
    }

    /// Waits like the scheduler's `wait`, once that gives up spinning.
    fn wait(&self, sequence: u64) {
        let point = StreamPoint { stream: self.lane.index, sequence };
        if !self.lane.is_done(sequence) && self.core.lock().add_sleeper(point, current()) {
            while !self.lane.is_done(sequence) {
                park();
            }
        }
    }
}

#[test]
fn loom_a_host_that_waits_learns_of_the_end() {
    explore("timeline, one host", None, || {
        let shared = Shared::with_blocks(2);
        let completer = loom::thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.carry_out_all()
        });
        shared.wait(2);
        completer.join().expect("the completer ends");
        assert_eq!(shared.lane.completed(), 2);
    });
}

#[test]
fn loom_hosts_that_wait_for_different_blocks_all_learn_of_them() {
    explore("timeline, two hosts", Some(2), || {
        let shared = Shared::with_blocks(2);
        let host = loom::thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.wait(1)
        });
        let completer = loom::thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.carry_out_all()
        });
        shared.wait(2);
        host.join().expect("the host ends");
        completer.join().expect("the completer ends");
        assert_eq!(shared.lane.completed(), 2);
    });
}
