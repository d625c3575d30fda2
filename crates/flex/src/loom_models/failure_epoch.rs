//! A block that relies on one before it does not run if that was cancelled.

use std::sync::Arc;

use spyre_hal::{EngineIndex, Fault, StreamPoint};

use super::{explore, lane, machine, publish};
use crate::Policy;
use crate::core::{Core, End, Note, Run, Verdict};
use crate::scheduler::arrivals::Arrivals;
use crate::stream::table::StreamTable;
use crate::sync::{Mutex, Ordering};

const ENGINE: EngineIndex = EngineIndex(0);

#[test]
fn loom_what_relies_on_a_cancelled_block_is_cancelled_or_left_out() {
    explore("failure epoch", None, || {
        let table = StreamTable::new();
        let arrivals = Arc::new(Arrivals::new());
        let lane = lane(&table);
        let mut core = Core::new(machine(), Arc::clone(&arrivals), Policy::RoundRobin, 1, false);
        core.add(Arc::clone(&lane));
        // What the last block will rely on, and what will fail.
        let epoch = lane.failure_epoch.load(Ordering::Acquire);
        publish(&lane);
        arrivals.list(&lane);

        let core = Arc::new(Mutex::new(core));
        let teller = loom::thread::spawn({
            let core = Arc::clone(&core);
            let index = lane.index;
            move || {
                let mut run = Run::default();
                let picked = core.lock().pick(ENGINE, None, &mut run).expect("it is queued");
                let entry = run.entries.pop().expect("a run has a block");
                let end = End::Failed(Note::new(&entry, 0), Fault::DivisionByZero);
                core.lock().finish(ENGINE, picked.token, end, &mut run);
                assert!(core.lock().raise(index).is_some());
            }
        });
        let reservation = lane.ring.reserve(1).expect("the model fits the ring");
        let is_unfailed = lane.is_unfailed_since(epoch);
        teller.join().expect("the teller ends");

        let verdict = |sequence| core.lock().raise_at(StreamPoint { stream: lane.index, sequence });
        assert!(matches!(verdict(1), Verdict::Failed(_)));
        assert!(!is_unfailed || matches!(verdict(reservation.first), Verdict::Failed(_)));
    });
}
