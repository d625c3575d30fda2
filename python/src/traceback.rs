//! Tracebacks of a program, as PyTorch gathers them.
#![allow(unsafe_code, reason = "tracebacks are objects of the shim")]

use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

unsafe extern "C" {
    fn spyre_traceback_gather(with_cpp: i32, may_wait: i32) -> *mut c_void;
    fn spyre_traceback_drop(traceback: *mut c_void);
    fn spyre_traceback_symbolize(
        tracebacks: *const *mut c_void,
        count: usize,
        context: *mut c_void,
        frame: extern "C" fn(*mut c_void, *const c_char, *const c_char, u64),
        frame_of: extern "C" fn(*mut c_void, usize, u64),
    ) -> i32;
}

/// The frames that were on the stack. [`Symbols`] looks up their names later.
#[derive(Debug)]
pub(crate) struct Traceback(NonNull<c_void>);

// SAFETY: PyTorch keeps them across threads: they hold counts of code objects, which are given back
// to a list that the interpreter's thread empties.
unsafe impl Send for Traceback {}
// SAFETY: nothing changes them.
unsafe impl Sync for Traceback {}

impl Traceback {
    /// Those of the calling thread. It takes the interpreter's lock: hold none of ours. One that may
    /// not wait for that lock gets nothing where the thread does not have it already.
    pub(crate) fn gather(with_cpp: bool, may_wait: bool) -> Option<Arc<Self>> {
        // SAFETY: it takes numbers and returns an object or null.
        let gathered = unsafe { spyre_traceback_gather(i32::from(with_cpp), i32::from(may_wait)) };
        NonNull::new(gathered).map(|object| Arc::new(Self(object)))
    }
}

impl Drop for Traceback {
    fn drop(&mut self) {
        // SAFETY: `gather` gave it to us, and no other object has it.
        unsafe { spyre_traceback_drop(self.0.as_ptr()) }
    }
}

/// A line of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) file: String,
    pub(crate) name: String,
    pub(crate) line: u64,
}

/// Names of tracebacks: the frames, which tracebacks share, and the indices of each traceback's frames.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    pub(crate) frames: Vec<Frame>,
    pub(crate) of: Vec<Vec<usize>>,
}

impl Symbols {
    /// Looks them up, together: that is much quicker than one by one.
    pub(crate) fn of(tracebacks: &[Arc<Traceback>]) -> Self {
        let pointers: Vec<*mut c_void> = tracebacks.iter().map(|it| it.0.as_ptr()).collect();
        let mut symbols = Self { frames: Vec::new(), of: vec![Vec::new(); pointers.len()] };
        // SAFETY: the pointers are objects that `tracebacks` holds; both functions are called before
        // this returns, with `symbols`, which no other code uses meanwhile.
        unsafe {
            spyre_traceback_symbolize(
                pointers.as_ptr(),
                pointers.len(),
                (&raw mut symbols).cast(),
                take_frame,
                take_frame_of,
            )
        };
        symbols
    }
}

extern "C" fn take_frame(
    symbols: *mut c_void,
    file: *const c_char,
    name: *const c_char,
    line: u64,
) {
    // SAFETY: `Symbols::of` gave it, and the shim gives texts that end.
    let (symbols, file, name) =
        unsafe { (&mut *symbols.cast::<Symbols>(), CStr::from_ptr(file), CStr::from_ptr(name)) };
    let text = |text: &CStr| text.to_string_lossy().into_owned();
    symbols.frames.push(Frame { file: text(file), name: text(name), line });
}

extern "C" fn take_frame_of(symbols: *mut c_void, traceback: usize, frame: u64) {
    // SAFETY: `Symbols::of` gave it, and nothing else uses it while the shim calls this.
    let symbols = unsafe { &mut *symbols.cast::<Symbols>() };
    if let Some(frames) = symbols.of.get_mut(traceback) {
        frames.push(frame as usize);
    }
}
