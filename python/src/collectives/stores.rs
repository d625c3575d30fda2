use std::ffi::{CString, c_char, c_void};
use std::time::Duration;

use spyre::collectives::KeyValueStore;

use super::{Take, list};

/// PyTorch's store, as the other side calls it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct TorchStore {
    context: *mut c_void,
    set: extern "C" fn(*mut c_void, *const c_char, *const u8, usize) -> bool,
    get: extern "C" fn(*mut c_void, *const c_char, i64, *mut c_void, Take) -> bool,
}

// SAFETY: PyTorch's stores are used by many threads; the other side holds this one as long as the group.
unsafe impl Send for TorchStore {}

impl KeyValueStore for TorchStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<(), String> {
        let name = CString::new(key).map_err(|error| error.to_string())?;
        if (self.set)(self.context, name.as_ptr(), value.as_ptr(), value.len()) {
            Ok(())
        } else {
            Err(format!("{key} could not be set"))
        }
    }

    fn wait_get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, String> {
        let name = CString::new(key).map_err(|error| error.to_string())?;
        let milliseconds = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
        let mut value: Vec<u8> = Vec::new();
        let sink = (&raw mut value).cast();
        if (self.get)(self.context, name.as_ptr(), milliseconds, sink, take) {
            Ok(value)
        } else {
            Err(String::from_utf8_lossy(&value).into_owned())
        }
    }
}

/// Keeps bytes that the other side hands over.
pub(super) extern "C" fn take(sink: *mut c_void, bytes: *const u8, count: usize) {
    // SAFETY: the sink is the vector of the call that is under way, which nothing else uses meanwhile.
    let value = unsafe { &mut *sink.cast::<Vec<u8>>() };
    value.extend_from_slice(list(bytes, count));
}
