//! Events: boxes that PyTorch keeps the addresses of.

use spyre::runtime::Event;

use super::guarded;
use crate::cards;
use crate::failure::{Failure, SpyreStatus};

/// An event, and the card that it was first recorded on.
pub struct SpyreEvent {
    event: Event,
    device: i32,
    is_timed: bool,
}

/// Records an event; it is made when it is first recorded.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_event_record(
    event: &mut Option<Box<SpyreEvent>>,
    device: i32,
    stream: i64,
    is_timed: bool,
) -> SpyreStatus {
    guarded(|| {
        let card = cards::card(device)?;
        let device = i32::from(card.index().0);
        let stream = card.stream(stream)?;
        let known = event.get_or_insert_with(|| {
            let event = if is_timed { Event::timed() } else { Event::new() };
            Box::new(SpyreEvent { event, device, is_timed })
        });
        if known.device != device {
            return Err(Failure::runtime(format!(
                "Event device {} does not match recording stream's device {device}",
                known.device,
            )));
        }
        Ok(stream.record(&known.event)?)
    })
}

/// Has a stream wait for an event, which may be another card's. The host does not wait.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_event_wait(event: &SpyreEvent, device: i32, stream: i64) -> SpyreStatus {
    guarded(|| Ok(cards::card(device)?.stream(stream)?.wait(&event.event)?))
}

/// Tells if an event was reached.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_event_query(event: &SpyreEvent, is_done: &mut bool) -> SpyreStatus {
    guarded(|| {
        *is_done = event.event.query()?;
        Ok(())
    })
}

/// Waits for an event.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_event_synchronize(event: &SpyreEvent) -> SpyreStatus {
    guarded(|| Ok(event.event.synchronize()?))
}

/// Milliseconds between two events; negative if they were recorded in the other order.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_event_elapsed(
    first: &SpyreEvent,
    second: &SpyreEvent,
    milliseconds: &mut f64,
) -> SpyreStatus {
    guarded(|| {
        if !(first.is_timed && second.is_timed) {
            return Err(Failure::runtime(
                "Both events must be created with argument 'enable_timing=True'.",
            ));
        }
        if first.device != second.device {
            return Err(Failure::runtime(format!(
                "Both events must be recorded on one device, not on {} and {}.",
                first.device, second.device
            )));
        }
        let forward = first.event.elapsed(&second.event)?.as_secs_f64();
        let elapsed = if forward == 0.0 {
            -second.event.elapsed(&first.event)?.as_secs_f64()
        } else {
            forward
        };
        *milliseconds = elapsed * 1e3;
        Ok(())
    })
}

/// Drops an event; a forked child only forgets it.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_event_destroy(event: Box<SpyreEvent>) {
    if cards::is_forked() {
        std::mem::forget(event);
    }
}
