//! Blocks that the caller waits for, and may carry out itself.

use std::sync::Arc;
use std::thread;

use spyre_flex::Error;
use spyre_hal::{Behaviour, BlockKind, Fault, Trigger};

use super::fill;
use crate::support::{fault, on_each_card, read, whole};

#[test]
fn a_block_that_is_run_is_done_when_the_call_returns_and_after_what_was_queued() {
    on_each_card(|card| {
        let stream = card.stream();
        let memory = whole(stream.allocate(64)?, 64);
        for round in 0..50 {
            stream.fill(memory, 2 * round)?;
            stream.run(fill(memory, 2 * round + 1))?;
            assert!(stream.is_idle());
            assert_eq!(read(&stream, memory)?, [2 * round + 1; 64]);
        }
        Ok(())
    });
}

#[test]
fn a_run_tells_the_fault_of_its_own_block_and_a_soon_one_at_the_next_wait() {
    on_each_card(|card| {
        let stream = card.stream();
        let memory = whole(stream.allocate(64)?, 64);
        let broken = || Behaviour::Fault(Fault::CopyFailed { why: "as scripted".into() });

        card.scripted().script(Trigger::Next(BlockKind::Fill), broken());
        let reported = fault(stream.run(fill(memory, 1)));
        assert_eq!(reported.fault, Fault::CopyFailed { why: "as scripted".into() });
        assert_eq!(stream.run(fill(memory, 2)), Ok(()));

        card.scripted().script(Trigger::Next(BlockKind::Fill), broken());
        assert_eq!(stream.run_soon(fill(memory, 3)), Ok(()));
        assert_eq!(fault(stream.synchronize()).fault, reported.fault);
        Ok(())
    });
}

#[test]
fn a_callback_is_refused_and_nothing_is_queued() {
    on_each_card(|card| {
        let stream = Arc::new(card.stream());
        let memory = whole(stream.allocate(64)?, 64);
        let inside = Arc::clone(&stream);
        stream.host_callback(move || match inside.run(fill(memory, 1)) {
            Err(Error::InsideCallback { .. }) => Ok(()),
            other => Err(format!("{other:?}")),
        })?;
        stream.synchronize()
    });
}

#[test]
fn threads_that_run_blocks_on_their_own_streams_see_their_own_results() {
    on_each_card(|card| {
        let streams: Vec<_> = (0..4).map(|_| card.stream()).collect();
        thread::scope(|scope| {
            for (nth, stream) in streams.iter().enumerate() {
                scope.spawn(move || -> Result<(), Error> {
                    let memory = whole(stream.allocate(64)?, 64);
                    for round in 0..100 {
                        let byte = (nth * 60 + round % 50) as u8;
                        match round % 3 {
                            0 => stream.run_soon(fill(memory, byte))?,
                            1 => stream.run(fill(memory, byte))?,
                            _ => stream.fill(memory, byte).map(drop)?,
                        }
                        assert_eq!(read(stream, memory)?, [byte; 64]);
                    }
                    Ok(())
                });
            }
        });
        Ok(())
    });
}
