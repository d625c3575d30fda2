//! Devices and streams.

use std::sync::atomic::{AtomicI8, Ordering};

use spyre::numerics::Profile;
use spyre::runtime::Priority;

use super::entry;
use crate::{cards, variables};

#[unsafe(no_mangle)]
extern "C" fn spyre_device_count() -> i32 {
    cards::count() as i32
}

#[unsafe(no_mangle)]
extern "C" fn spyre_is_started() -> i32 {
    i32::from(cards::is_started())
}

#[unsafe(no_mangle)]
extern "C" fn spyre_current_device() -> i32 {
    cards::current_device()
}

#[unsafe(no_mangle)]
extern "C" fn spyre_set_current_device_unchecked(device: i32) {
    cards::set_current_device_unchecked(device);
}

#[unsafe(no_mangle)]
extern "C" fn spyre_is_card_profile() -> i32 {
    i32::from(cards::profile() == Ok(Profile::Card))
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

#[unsafe(no_mangle)]
extern "C" fn spyre_warns_of_downcasts() -> i32 {
    i32::from(warns_of_downcasts())
}

entry! {
    fn spyre_set_current_device(device: i32) {
        cards::set_current_device(device)
    }

    fn spyre_synchronize_device(device: i32) {
        Ok(cards::card(device)?.device.synchronize()?)
    }

    fn spyre_new_stream(device: i32, is_high: i32, stream: *mut i64) {
        let priority = if is_high != 0 { Priority::High } else { Priority::Low };
        let id = cards::card(device)?.new_stream(priority)?;
        // SAFETY: the shim gives the address of a number.
        unsafe { *stream = i64::from(id) };
        Ok(())
    }

    fn spyre_query_stream(device: i32, stream: i64, is_done: *mut i32) {
        let is_idle = cards::card(device)?.stream(stream)?.query()?;
        // SAFETY: the shim gives the address of a number.
        unsafe { *is_done = i32::from(is_idle) };
        Ok(())
    }

    fn spyre_synchronize_stream(device: i32, stream: i64) {
        Ok(cards::card(device)?.stream(stream)?.synchronize()?)
    }
}

#[unsafe(no_mangle)]
extern "C" fn spyre_current_stream(device: i32) -> i64 {
    i64::from(cards::current_stream(device))
}

/// The stream that was current, or -1 with a message.
#[unsafe(no_mangle)]
extern "C" fn spyre_exchange_stream(device: i32, stream: i64) -> i64 {
    match cards::exchange_stream(device, stream) {
        Ok(before) => i64::from(before),
        Err(failure) => {
            failure.note();
            -1
        }
    }
}
