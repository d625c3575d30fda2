//! Events: boxes that PyTorch keeps the addresses of.

use std::ffi::c_void;

use spyre::runtime::Event;

use super::entry;
use crate::cards;
use crate::failure::Failure;

/// An event, and the card that it was first recorded on.
struct DeviceEvent {
    event: Event,
    device: i32,
    is_timed: bool,
}

entry! {
    /// Makes the event when it is first recorded.
    fn spyre_event_record(place: *mut *mut c_void, device: i32, stream: i64, is_timed: i32) {
        let card = cards::card(device)?;
        let stream = card.stream(stream)?;
        // SAFETY: the shim gives the address of its pointer, which is null or one of ours.
        let place = unsafe { &mut *place };
        if place.is_null() {
            let event = if is_timed != 0 { Event::timed() } else { Event::new() };
            let made = DeviceEvent { event, device: i32::from(card.index().0), is_timed: is_timed != 0 };
            *place = Box::into_raw(Box::new(made)).cast();
        }
        // SAFETY: as above.
        let known = unsafe { event_at(*place) };
        if known.device != i32::from(card.index().0) {
            return Err(Failure::runtime(format!(
                "Event device {} does not match recording stream's device {}",
                known.device, card.index()
            )));
        }
        Ok(stream.record(&known.event)?)
    }

    /// An event of another card is waited for by the host.
    fn spyre_event_wait(event: *mut c_void, device: i32, stream: i64) {
        // SAFETY: the shim gives what `spyre_event_record` made.
        let known = unsafe { event_at(event) };
        let card = cards::card(device)?;
        if known.device != i32::from(card.index().0) {
            return Ok(known.event.synchronize()?);
        }
        Ok(card.stream(stream)?.wait(&known.event)?)
    }

    fn spyre_event_query(event: *mut c_void, is_done: *mut i32) {
        // SAFETY: as above, and the address of a number.
        unsafe { *is_done = i32::from(event_at(event).event.query()?) };
        Ok(())
    }

    fn spyre_event_synchronize(event: *mut c_void) {
        // SAFETY: as above.
        Ok(unsafe { event_at(event) }.event.synchronize()?)
    }

    fn spyre_event_elapsed(first: *mut c_void, second: *mut c_void, milliseconds: *mut f64) {
        // SAFETY: as above.
        let (first, second) = unsafe { (event_at(first), event_at(second)) };
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
        let elapsed = match first.event.elapsed(&second.event) {
            Ok(elapsed) => elapsed.as_secs_f64(),
            // Recorded in the other order: as far back.
            Err(error) => return Err(error.into()),
        };
        let elapsed = match elapsed {
            0.0 => -second.event.elapsed(&first.event)?.as_secs_f64(),
            forward => forward,
        };
        // SAFETY: the shim gives the address of a number.
        unsafe { *milliseconds = elapsed * 1e3 };
        Ok(())
    }
}

/// Drops an event; a forked child only forgets it.
#[unsafe(no_mangle)]
unsafe extern "C" fn spyre_event_destroy(event: *mut c_void) {
    if !cards::is_forked() {
        // SAFETY: the shim gives each event up once.
        drop(unsafe { Box::from_raw(event.cast::<DeviceEvent>()) });
    }
}

/// # Safety
/// The pointer is one that `spyre_event_record` made, and the event was not destroyed.
unsafe fn event_at<'a>(event: *mut c_void) -> &'a DeviceEvent {
    // SAFETY: as promised.
    unsafe { &*event.cast::<DeviceEvent>() }
}
