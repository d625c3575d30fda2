use std::borrow::Cow;
use std::ffi::{CStr, c_char};

/// A text of the shim, which ends with a zero and lives until the call returns.
#[repr(transparent)]
pub struct SpyreText(*const c_char);

impl SpyreText {
    /// The text as C has it.
    pub(crate) fn c_str(&self) -> &CStr {
        // SAFETY: the shim alone makes these, from texts that end and that it holds for the call.
        unsafe { CStr::from_ptr(self.0) }
    }

    /// The text; bytes that are not UTF-8 are replaced.
    pub(crate) fn to_str(&self) -> Cow<'_, str> {
        self.c_str().to_string_lossy()
    }
}
