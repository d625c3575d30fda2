//! Devices and streams. The device -1 is the calling thread's current one.

use std::sync::atomic::{AtomicI8, Ordering};

use spyre::numerics::Profile;
use spyre::runtime::{Priority, SpyreStream};

use super::{SpyreText, guarded};
use crate::failure::{Failure, SpyreStatus};
use crate::{cards, variables};

/// Number of devices; it never fails.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_device_count() -> i32 {
    cards::count() as i32
}

/// Returns true if a device was opened.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_is_started() -> bool {
    cards::is_started()
}

/// The calling thread's device.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_current_device() -> i32 {
    cards::current_device()
}

/// Makes a device the calling thread's that was so before.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_set_current_device_unchecked(device: i32) {
    cards::set_current_device_unchecked(device);
}

/// Makes a device the calling thread's.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_set_current_device(device: i32) -> SpyreStatus {
    guarded(|| cards::set_current_device(device))
}

/// Waits for all streams of a device.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_synchronize_device(device: i32) -> SpyreStatus {
    guarded(|| {
        let card = cards::card(device)?;
        refuse_in_capture(card.current_stream()?, "to wait for the device")?;
        Ok(card.device.synchronize()?)
    })
}

/// Returns true if devices keep a real card's number formats.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_is_card_profile() -> bool {
    cards::profile() == Ok(Profile::Card)
}

/// 1 if int64 that is narrowed comes with a warning, 0 if not. -1 until the program sets it: the environment
/// decides until then.
static WARNS_OF_DOWNCASTS: AtomicI8 = AtomicI8::new(-1);

pub(crate) fn warns_of_downcasts() -> bool {
    match WARNS_OF_DOWNCASTS.load(Ordering::Relaxed) {
        -1 => variables::warns_of_downcasts().unwrap_or(true),
        warns => warns != 0,
    }
}

pub(crate) fn set_warns_of_downcasts(warns: bool) {
    WARNS_OF_DOWNCASTS.store(i8::from(warns), Ordering::Relaxed);
}

/// Returns true if int64 that is narrowed comes with a warning.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_warns_of_downcasts() -> bool {
    warns_of_downcasts()
}

/// The calling thread's stream on a device.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_current_stream(device: i32) -> i64 {
    i64::from(cards::current_stream(device))
}

/// Refuses what a graph cannot repeat, if the calling thread's stream captures one.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_refuse_in_capture(device: i32, what: SpyreText) -> SpyreStatus {
    guarded(|| refuse_in_capture(cards::card(device)?.current_stream()?, &what.to_str()))
}

fn refuse_in_capture(stream: &SpyreStream, what: &str) -> Result<(), Failure> {
    if !stream.is_capturing() {
        return Ok(());
    }
    let stream = stream.id().0;
    Err(Failure::runtime(format!(
        "{what} is refused while stream {stream} captures a graph: do it before or after the capture"
    )))
}

/// Makes a stream the calling thread's; the one that was, or -1 with a message.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_exchange_stream(device: i32, stream: i64) -> i64 {
    match cards::exchange_stream(device, stream) {
        Ok(before) => i64::from(before),
        Err(failure) => {
            failure.note();
            -1
        }
    }
}

/// The next stream of the pool.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_new_stream(device: i32, is_high: bool, stream: &mut i64) -> SpyreStatus {
    guarded(|| {
        let priority = if is_high { Priority::High } else { Priority::Low };
        *stream = i64::from(cards::card(device)?.new_stream(priority)?);
        Ok(())
    })
}

/// Tells if all that is queued on a stream has ended.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_query_stream(device: i32, stream: i64, is_done: &mut bool) -> SpyreStatus {
    guarded(|| {
        *is_done = cards::card(device)?.stream(stream)?.query()?;
        Ok(())
    })
}

/// Waits for a stream.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_synchronize_stream(device: i32, stream: i64) -> SpyreStatus {
    guarded(|| Ok(cards::card(device)?.stream(stream)?.synchronize()?))
}
