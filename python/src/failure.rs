use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::fmt::Display;

use spyre::flex::StreamFault;
use spyre::hal::Fault;
use spyre::{OpenError, flex, layout, runtime};

use crate::kernels::launched_at;

/// Reason why a call from outside failed: the kind of exception, and its message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) message: String,
}

/// Kind of exception that a failure becomes; the numbers are `SpyreStatus` in `csrc/spyre.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(dead_code, reason = "the shim knows them all")]
pub(crate) enum Kind {
    Runtime = 1,
    OutOfMemory = 2,
    Index = 3,
    Value = 4,
    NotImplemented = 5,
    Type = 6,
    Unsupported = 7,
    Resize = 8,
    Interrupted = 9,
}

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl Display) -> Self {
        Self { kind, message: message.to_string() }
    }

    pub(crate) fn runtime(message: impl Display) -> Self {
        Self::new(Kind::Runtime, message)
    }

    /// Remembers the message for the thread that asks next, and says which kind it was.
    pub(crate) fn note(self) -> i32 {
        let message = CString::new(self.message.replace('\0', "?")).unwrap_or_default();
        LAST.with_borrow_mut(|last| *last = message);
        self.kind as i32
    }
}

/// Message of the calling thread's last failure. Valid until its next failure.
pub(crate) fn last_message() -> *const std::ffi::c_char {
    LAST.with_borrow(|last| CStr::as_ptr(last))
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

impl From<runtime::Error> for Failure {
    fn from(error: runtime::Error) -> Self {
        let kind = match &error {
            runtime::Error::Flex(flex::Error::OutOfMemory { .. }) => Kind::OutOfMemory,
            runtime::Error::Flex(flex::Error::Stream(fault)) => kind_of(fault),
            runtime::Error::Flex(flex::Error::Interrupted { .. }) => Kind::Interrupted,
            runtime::Error::Layout(layout::Error::TargetOverlaps { .. }) => Kind::Unsupported,
            _ => Kind::Runtime,
        };
        match &error {
            runtime::Error::Flex(flex::Error::Stream(cause)) => {
                Self::new(kind, format!("{error}{}", launched(cause)))
            }
            runtime::Error::Flex(flex::Error::Poisoned { cause, .. }) => Self::new(
                kind,
                format!(
                    "the tensor holds no result: the work that was to write its storage failed or \
                     was cancelled. Write all of it anew (x.copy_, x.fill_), or make it anew. The \
                     first cause was: {cause}{}",
                    launched(cause)
                ),
            ),
            _ => Self::new(kind, error),
        }
    }
}

/// The line of Python that launched what failed, if it is known.
fn launched(cause: &StreamFault) -> String {
    launched_at(cause).map(|place| format!("; {place}")).unwrap_or_default()
}

/// Kernels of ops whose indices, if out of range, are a RuntimeError on the CPU and on CUDA.
const RUNTIME_ERRORS: [&str; 4] =
    ["aten_gather", "aten_scatter_each", "aten_scatter_value", "aten_index_add"];

/// Kind of exception for a fault of the device: the one that PyTorch raises for the same op on other devices.
fn kind_of(fault: &StreamFault) -> Kind {
    let is_runtime = || fault.label.name().is_some_and(|name| RUNTIME_ERRORS.contains(&&*name));
    match fault.fault {
        Fault::IndexOutOfRange { .. } if !is_runtime() => Kind::Index,
        _ => Kind::Runtime,
    }
}

impl From<flex::Error> for Failure {
    fn from(error: flex::Error) -> Self {
        runtime::Error::from(error).into()
    }
}

impl From<layout::Error> for Failure {
    fn from(error: layout::Error) -> Self {
        runtime::Error::from(error).into()
    }
}

impl From<spyre::numerics::Error> for Failure {
    fn from(error: spyre::numerics::Error) -> Self {
        runtime::Error::from(error).into()
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Runtime(error) => error.into(),
            other => Self::runtime(other),
        }
    }
}

impl From<Failure> for pyo3::PyErr {
    fn from(failure: Failure) -> Self {
        use pyo3::exceptions::{
            PyIndexError, PyNotImplementedError, PyRuntimeError, PyTypeError, PyValueError,
        };
        let message = failure.message;
        match failure.kind {
            Kind::Runtime | Kind::OutOfMemory | Kind::Unsupported | Kind::Resize => {
                PyRuntimeError::new_err(message)
            }
            Kind::Index => PyIndexError::new_err(message),
            Kind::Value => PyValueError::new_err(message),
            Kind::NotImplemented => PyNotImplementedError::new_err(message),
            Kind::Type => PyTypeError::new_err(message),
            Kind::Interrupted => crate::interrupts::take(),
        }
    }
}
