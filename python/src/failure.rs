use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::fmt::Display;

use spyre::flex::StreamFault;
use spyre::hal::Fault;
use spyre::{OpenError, flex, layout, runtime};

use crate::kernels::explain;

/// Reason why a call from outside failed: the kind of exception, and its message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) kind: SpyreStatus,
    pub(crate) message: String,
}

/// Outcome of a call of the shim: the kind of exception that a failure becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(dead_code, reason = "the shim knows them all")]
pub enum SpyreStatus {
    /// All went well.
    Ok = 0,
    Runtime = 1,
    OutOfMemory = 2,
    Index = 3,
    Value = 4,
    NotImplemented = 5,
    Type = 6,
    /// Not an error: the caller is to go another way.
    Unsupported = 7,
    /// Not an error: the tensors that are written are to be resized to the first result's shape.
    Resize = 8,
    /// A signal's handler has raised an exception, which the Rust side holds.
    Interrupted = 9,
    /// A collective has failed, and its group with it.
    Distributed = 10,
}

impl Failure {
    pub(crate) fn new(kind: SpyreStatus, message: impl Display) -> Self {
        Self { kind, message: message.to_string() }
    }

    pub(crate) fn runtime(message: impl Display) -> Self {
        Self::new(SpyreStatus::Runtime, message)
    }

    /// Remembers the message for the thread that asks next, and says which kind it was.
    pub(crate) fn note(self) -> SpyreStatus {
        let message = CString::new(self.message.replace('\0', "?")).unwrap_or_default();
        LAST.with_borrow_mut(|last| *last = message);
        self.kind
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
            runtime::Error::Flex(flex::Error::OutOfMemory { .. }) => SpyreStatus::OutOfMemory,
            runtime::Error::Flex(flex::Error::Stream(fault)) => kind_of(fault),
            runtime::Error::Flex(flex::Error::Interrupted { .. }) => SpyreStatus::Interrupted,
            runtime::Error::Layout(layout::Error::TargetOverlaps { .. }) => {
                SpyreStatus::Unsupported
            }
            _ => SpyreStatus::Runtime,
        };
        match &error {
            runtime::Error::Flex(flex::Error::Stream(cause)) => {
                let (kind, message) = explain(cause, kind, error.to_string());
                Self { kind, message }
            }
            runtime::Error::Flex(flex::Error::Poisoned { cause, .. }) => {
                let (_, message) = explain(cause, kind, cause.to_string());
                let why = "the tensor holds no result: the work that was to write its storage failed \
                           or was cancelled. Write all of it anew (x.copy_, x.fill_), or make it anew. \
                           The first cause was";
                Self::new(kind, format!("{why}: {message}"))
            }
            _ => Self::new(kind, error),
        }
    }
}

/// Kernels of ops whose indices, if out of range, are a RuntimeError on the CPU and on CUDA.
const RUNTIME_ERRORS: [&str; 4] =
    ["aten_gather", "aten_scatter_each", "aten_scatter_value", "aten_index_add"];

/// SpyreStatus of exception for a fault of the device: the one that PyTorch raises for the same op on other devices.
fn kind_of(fault: &StreamFault) -> SpyreStatus {
    let is_runtime = || fault.label.name().is_some_and(|name| RUNTIME_ERRORS.contains(&&*name));
    match fault.fault {
        Fault::IndexOutOfRange { .. } if !is_runtime() => SpyreStatus::Index,
        // Collectives have names; waits for other cards have none.
        Fault::ExternalWorkFailed { .. } if fault.label.name().is_some() => {
            SpyreStatus::Distributed
        }
        _ => SpyreStatus::Runtime,
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
            SpyreStatus::Index => PyIndexError::new_err(message),
            SpyreStatus::Value => PyValueError::new_err(message),
            SpyreStatus::NotImplemented => PyNotImplementedError::new_err(message),
            SpyreStatus::Type => PyTypeError::new_err(message),
            SpyreStatus::Interrupted => crate::interrupts::take(),
            SpyreStatus::OutOfMemory => torch_error("torch", "OutOfMemoryError", message),
            SpyreStatus::Distributed => {
                torch_error("torch.distributed", "DistBackendError", message)
            }
            _ => PyRuntimeError::new_err(message),
        }
    }
}

/// PyTorch's own exception, which programs catch.
#[cold]
fn torch_error(module: &str, name: &str, message: String) -> pyo3::PyErr {
    use pyo3::prelude::*;
    Python::attach(|py| {
        let class = py.import(module).and_then(|module| module.getattr(name));
        match class.and_then(|class| class.call1((message,))) {
            Ok(error) => PyErr::from_value(error),
            Err(error) => error,
        }
    })
}
