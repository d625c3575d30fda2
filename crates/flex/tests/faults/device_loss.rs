//! Devices that are lost, and what a reset does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use spyre_flex::{Error, Priority, SchedulerSettings};
use spyre_hal::{
    Behaviour, BlockKind, Completions, ControlBlock, Description, DeviceRange, EngineIndex, Fault,
    Hardware, Label, MemoryMode, Outcome, PeerMemory, Regions, ScriptedCard, Started, Token,
    Trigger,
};

use super::data_fault;
use crate::support::{fault, on_each_card, program, read, whole};

#[test]
fn a_lost_device_fails_every_stream_with_one_cause() {
    on_each_card(|card| {
        let streams: Vec<_> = (0..6).map(|_| card.stream()).collect();
        let program = program(&streams[0])?;
        card.context.synchronize()?;
        card.scripted().script(Trigger::Nth(20), Behaviour::Lose);
        for stream in streams.iter().cycle().take(60) {
            // Once it is lost, this is refused.
            if let Err(error) = stream.launch_labelled(program, Label::named("step")) {
                assert!(matches!(error, Error::Stream(_)), "{error}");
            }
        }

        let reported = fault(card.context.synchronize());
        assert_eq!((reported.kind, &*reported.label.to_string()), (BlockKind::Launch, "step"));
        assert!(matches!(reported.fault, Fault::DeviceLost { .. }));
        for stream in &streams {
            assert_eq!(fault(stream.synchronize()), reported);
            assert_eq!(fault(stream.launch(program)), reported);
            assert_eq!(
                fault(stream.reset()),
                reported,
                "a stream cannot be reset without the device"
            );
        }
        let late = card.stream();
        assert_eq!(fault(late.launch(program)), reported);
        assert_eq!(fault(late.query()), reported);

        card.context.reset()?;
        assert_eq!((late.query(), card.context.synchronize()), (Ok(true), Ok(())));
        Ok(())
    });
}

#[test]
fn a_reset_starts_a_new_epoch() {
    on_each_card(|card| {
        let stream = card.stream();
        let old = stream.allocate(4096)?;
        let fill = stream.fill(whole(old, 4096), 0xff)?;
        stream.synchronize()?;
        assert_eq!(card.context.allocator().statistics().allocated_bytes, 4096);

        card.context.reset()?;
        assert_eq!(card.context.allocator().statistics().allocated_bytes, 0);
        let why = format!(
            "{old} is not a live allocation of this card: it is from before a reset, or from \
             another card"
        );
        let refused = [
            stream.launch(old).map(drop),
            stream.fill(whole(old, 1), 0).map(drop),
            card.context.free(old),
        ];
        for result in refused {
            assert_eq!(result.expect_err("it is stale").to_string(), why);
        }
        assert_eq!(stream.ticket(fill).wait(), Ok(()), "what ended before stays ended");

        let new = stream.allocate(4096)?;
        assert!(read(&stream, whole(new, 4096))? == [0; 4096], "memory reads zero");
        let good = program(&stream)?;
        stream.launch(good)?;
        stream.synchronize()
    });
}

#[test]
fn a_reset_cancels_all_that_is_queued_or_hangs() {
    on_each_card(|card| {
        for round in 0..5 {
            let streams: Vec<_> = (0..6).map(|_| card.stream()).collect();
            let program = program(&streams[0])?;
            streams[0].synchronize()?;
            card.scripted().script(Trigger::Nth(round + 1), Behaviour::HangForever);
            let mut tickets = Vec::new();
            for stream in streams.iter().cycle().take(60) {
                tickets.push(stream.ticket(stream.launch(program)?));
            }
            crate::support::until("it hangs", || !card.scripted().hanging().is_empty());

            card.context.reset()?;
            assert_eq!(card.context.synchronize(), Ok(()));
            let lost = tickets.iter().filter(|ticket| ticket.wait().is_err()).count();
            assert!((1..=60).contains(&lost), "{lost}");
            assert!(tickets.iter().all(|t| t.query().is_err() || t.query() == Ok(true)));
        }
        Ok(())
    });
}

#[test]
fn resets_amid_submissions_lose_and_wedge_nothing() {
    on_each_card(|card| {
        let is_over = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                let stream = card.stream();
                let is_over = &is_over;
                scope.spawn(move || {
                    while is_over.load(Ordering::SeqCst) == 0 {
                        let run = || {
                            let program = program(&stream)?;
                            (0..10).try_for_each(|_| stream.launch(program).map(drop))?;
                            stream.synchronize()
                        };
                        match run() {
                            Ok(()) | Err(Error::BadHandle { .. }) => {}
                            Err(Error::Stream(reported)) => {
                                assert!(
                                    matches!(
                                        reported.fault,
                                        Fault::DeviceLost { .. } | Fault::DeviceReset
                                    ),
                                    "{reported}"
                                );
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
            for _ in 0..30 {
                card.context.reset().expect("it is reset");
                thread::yield_now();
            }
            is_over.store(1, Ordering::SeqCst);
        });
        card.context.reset()?;
        let stream = card.stream();
        let program = program(&stream)?;
        stream.launch(program)?;
        stream.synchronize()
    });
}

/// A card whose code is wrong.
#[derive(Debug)]
struct Panicking(ScriptedCard);

impl Regions for Panicking {
    spyre_hal::forward_regions!(|self| self.0);
}

impl Hardware for Panicking {
    fn description(&self) -> Description {
        self.0.description()
    }

    fn connect(&self, completions: Arc<dyn Completions>) {
        self.0.connect(completions);
    }

    fn start(&self, engine: EngineIndex, token: Token, block: ControlBlock) -> Started {
        assert!(block.kind() != BlockKind::CopyPeer, "copies to peers are not written yet");
        self.0.start(engine, token, block)
    }

    fn abort(&self, engine: EngineIndex, token: Token) {
        self.0.abort(engine, token);
    }

    fn reset(&self) {
        self.0.reset();
    }
}

impl PeerMemory for Panicking {
    fn accept(&self, target: DeviceRange, bytes: &[u8]) -> Outcome {
        self.0.accept(target, bytes)
    }
}

#[test]
fn a_device_whose_code_panics_is_lost() -> Result<(), Error> {
    for drive in [spyre_flex::Drive::Inline, spyre_flex::Drive::Workers] {
        let card = Arc::new(Panicking(ScriptedCard::new(MemoryMode::Vf)));
        let settings = SchedulerSettings { drive: Some(drive), ..SchedulerSettings::default() };
        let context = crate::support::open(card, settings);
        let stream = context.stream(Priority::Low)?;
        let other = context.stream(Priority::Low)?;
        let handles = [stream.allocate(128)?, stream.allocate(128)?];
        let [source, target] = handles.map(|handle| whole(handle, 128));

        stream.copy_to_peer(source, &context, target)?;
        let reported = fault(stream.synchronize());
        assert_eq!(
            reported.to_string(),
            "stream 0, block 1 (copy to peer): the device is lost: its code panicked: copies to \
             peers are not written yet. Reset it; its memory is gone"
        );
        assert_eq!(fault(other.synchronize()), reported);

        context.reset()?;
        let program = program(&other)?;
        other.launch(program)?;
        context.synchronize()?;
    }
    Ok(())
}

#[test]
fn a_block_keeps_its_own_fault_when_the_device_is_lost_behind_it() {
    on_each_card(|card| {
        let stream = card.stream();
        let other = card.stream();
        let program = program(&stream)?;
        card.context.synchronize()?;
        card.scripted().script(Trigger::Nth(1), Behaviour::Fault(data_fault()));
        card.scripted().script(Trigger::Nth(2), Behaviour::Lose);
        let failed = stream.launch(program)?;
        crate::support::until("it failed", || card.scripted().log().len() == 2);
        let losing = other.launch(program)?;

        let lost = fault(other.ticket(losing).wait());
        assert_eq!(lost.point, losing);
        assert_eq!(fault(stream.ticket(failed).wait()).fault, data_fault());
        assert_eq!(fault(stream.synchronize()), lost, "the stream needs the reset, too");
        Ok(())
    });
}
