//! Workers that are woken, where there are several.

mod support;

use spyre_flex::{Drive, Error, Priority, SchedulerSettings};
use support::{Stepped, until, whole};

#[test]
fn a_worker_is_woken_by_those_that_cannot_help_and_by_no_others() -> Result<(), Error> {
    const ENGINES: u16 = 5;
    let settings =
        SchedulerSettings { drive: Some(Drive::Workers), spins: 1, ..SchedulerSettings::default() };
    let stepped = Stepped::open_with(ENGINES, settings);
    let scheduler = stepped.context.scheduler();
    let streams: Vec<_> = (0..ENGINES).map(|_| stepped.stream(Priority::Low)).collect();
    let target = whole(streams[0].allocate(128)?, 128);

    let mut wakes = 0;
    for _ in 0..20 {
        for (busy, stream) in streams.iter().enumerate() {
            until("all workers sleep", || scheduler.awake_workers() == 0);
            let before = scheduler.worker_wakes();
            stream.fill(target, 1)?;
            until("the block is started", || stepped.card.pending() == busy + 1);
            until("all workers sleep", || scheduler.awake_workers() == 0);
            // The first that sleeps, and if its engine is busy, one whose engine is not; seldom one
            // more, if the first looks again before that one has come.
            wakes += scheduler.worker_wakes() - before;
        }
        stepped.finish_all();
    }
    let blocks = 20 * u64::from(ENGINES);
    assert!(wakes >= blocks, "{wakes} were woken for {blocks} blocks, of workers that slept");
    assert!(wakes <= 5 * blocks / 2, "{wakes} were woken for {blocks} blocks");
    Ok(())
}
