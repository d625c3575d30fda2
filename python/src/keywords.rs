//! Two more keywords for PyTorch's functions, `device_layout=` and `stick_dims=`.
//!
//! PyTorch, and programs that build on it, know functions such as `torch.empty` by identity. So the objects stay:
//! what CPython calls for one (`PyMethodDef::ml_meth`) is exchanged, in place. A call without the keywords goes on
//! as it came, for the price of a look at its names.
#![allow(unsafe_code, reason = "callables that pass arguments on as they are given")]

use std::ffi::{CStr, CString};
use std::mem::size_of;
use std::ptr;
use std::sync::OnceLock;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use pyo3::{ffi, intern};

/// The most functions and methods that can have the keywords.
const PLACES: usize = 48;
/// CPython reads the function from the definition for each call with these flags.
const KIND: i32 = ffi::METH_VARARGS | ffi::METH_KEYWORDS;

/// A function as PyTorch has it, and what takes calls with the keywords.
struct Extended {
    original: ffi::PyCFunctionWithKeywords,
    other: Py<PyAny>,
    names: [Py<PyString>; 2],
    is_method: bool,
}

static EXTENDED: [OnceLock<Extended>; PLACES] = [const { OnceLock::new() }; PLACES];

/// Adds the functions of this part to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_add_keywords, module)?)
}

/// Has a function or method of PyTorch call `other` where one of the keywords is given. Once for each.
#[pyfunction]
fn _add_keywords(function: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = function.py();
    let definition = definition(function)?;
    // SAFETY: `definition` found it to be one, PyTorch's are written to (`_add_docstr`) and live for ever, and the
    // interpreter is held, so that there is no call meanwhile.
    unsafe {
        let extended = Extended {
            original: (*definition).ml_meth.PyCFunctionWithKeywords,
            other: other.clone().unbind(),
            names: [intern!(py, "device_layout"), intern!(py, "stick_dims")]
                .map(|name| name.clone().unbind()),
            is_method: is_method(function),
        };
        let signature = signature(function)?;
        let place = take_place(extended)?;
        (*definition).ml_meth.PyCFunctionWithKeywords = FUNCTIONS[place];
        (*definition).ml_doc = signature.into_raw();
    }
    Ok(())
}

/// Takes a place, for ever.
fn take_place(extended: Extended) -> PyResult<usize> {
    let mut extended = Some(extended);
    let place = EXTENDED.iter().position(|place| match extended.take() {
        Some(ours) => place.set(ours).map_err(|ours| extended = Some(ours)).is_ok(),
        None => false,
    });
    place.ok_or_else(|| PyRuntimeError::new_err("too many functions have keywords"))
}

/// The documentation, with a first line for `inspect.signature`; `__doc__` leaves it out.
fn signature(function: &Bound<'_, PyAny>) -> PyResult<CString> {
    let name: String = function.getattr("__name__")?.extract()?;
    let about: Option<String> = function.getattr("__doc__")?.extract()?;
    let owner = if is_method(function) { "$self, /, " } else { "" };
    let keywords = "*args, device_layout=None, stick_dims=None, **kwargs";
    let text = format!("{name}({owner}{keywords})\n--\n\n{}", about.unwrap_or_default());
    Ok(CString::new(text.replace('\0', "")).unwrap_or_default())
}

fn is_method(function: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive, and the type is CPython's own.
    unsafe { ffi::Py_TYPE(function.as_ptr()) == &raw mut ffi::PyMethodDescr_Type }
}

/// The definition that a function of PyTorch was made from. CPython's stable interface does not show it: its
/// name and flags are checked instead.
fn definition(function: &Bound<'_, PyAny>) -> PyResult<*mut ffi::PyMethodDef> {
    // PyCFunctionObject begins with it; PyMethodDescrObject has type, name and qualified name before it.
    let words = if is_method(function) { 3 } else { 0 };
    let name: String = function.getattr("__name__")?.extract()?;
    let refused = || PyRuntimeError::new_err(format!("{name} is no function that takes keywords"));
    // SAFETY: the object is alive and, by its type, at least so large; the name of a definition ends with a zero.
    unsafe {
        if !is_method(function) && ffi::PyCFunction_Check(function.as_ptr()) == 0 {
            return Err(refused());
        }
        let offset = size_of::<ffi::PyObject>() + words * size_of::<usize>();
        let definition: *mut ffi::PyMethodDef =
            function.as_ptr().byte_add(offset).cast::<*mut ffi::PyMethodDef>().read();
        let is_right = !definition.is_null()
            && (*definition).ml_flags & !(ffi::METH_STATIC | ffi::METH_CLASS) == KIND
            && CStr::from_ptr((*definition).ml_name).to_bytes() == name.as_bytes();
        is_right.then_some(definition).ok_or_else(refused)
    }
}

/// # Safety
/// CPython's: the objects are alive, `named` is null or a dict, and the interpreter is held.
unsafe extern "C" fn function<const AT: usize>(
    own: *mut ffi::PyObject,
    arguments: *mut ffi::PyObject,
    named: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let Some(extended) = EXTENDED[AT].get() else { return ptr::null_mut() };
    // SAFETY: CPython passes live objects and holds the interpreter, and the original takes what it passes.
    unsafe {
        if named.is_null() || !extended.is_named(named) {
            return (extended.original)(own, arguments, named);
        }
        extended.call_other(own, arguments, named)
    }
}

impl Extended {
    /// Returns true if one of the keywords is among the names of a call.
    ///
    /// # Safety
    /// `named` is a dict, and the interpreter is held.
    #[inline]
    unsafe fn is_named(&self, named: *mut ffi::PyObject) -> bool {
        // SAFETY: `named` is a live dict; the names are texts, whose hashes cannot fail.
        self.names.iter().any(|name| unsafe { ffi::PyDict_Contains(named, name.as_ptr()) } == 1)
    }

    /// # Safety
    /// As for [`function`].
    #[cold]
    unsafe fn call_other(
        &self,
        own: *mut ffi::PyObject,
        arguments: *mut ffi::PyObject,
        named: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject {
        if !self.is_method {
            // SAFETY: CPython's own arguments of a call: a tuple, and null or a dict.
            return unsafe { ffi::PyObject_Call(self.other.as_ptr(), arguments, named) };
        }
        // SAFETY: `arguments` is CPython's tuple of a call; each object that is put into the tuple has a count for it.
        unsafe {
            let count = ffi::PyTuple_Size(arguments);
            let with_own = ffi::PyTuple_New(count + 1);
            if with_own.is_null() {
                return with_own;
            }
            for at in 0..=count {
                let item = if at == 0 { own } else { ffi::PyTuple_GetItem(arguments, at - 1) };
                ffi::Py_INCREF(item);
                ffi::PyTuple_SetItem(with_own, at, item);
            }
            let result = ffi::PyObject_Call(self.other.as_ptr(), with_own, named);
            ffi::Py_DECREF(with_own);
            result
        }
    }
}

/// One function for each place: what CPython calls knows nothing but its address.
macro_rules! for_each_place {
    ($($at:literal)*) => { [$(function::<$at>),*] };
}

static FUNCTIONS: [ffi::PyCFunctionWithKeywords; PLACES] = for_each_place!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
    24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47);
