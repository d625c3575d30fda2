//! PyTorch's functions with two more keywords, `device_layout=` and `stick_dims=`.
//!
//! Every `torch.empty` and `Tensor.to` of a program goes through here, most of them for the CPU: a
//! call without the keywords goes on as it came, for the price of a look at its names.
#![allow(unsafe_code, reason = "callables that pass arguments on as they are given")]

use std::ffi::{CString, c_int};
use std::ptr;
use std::sync::OnceLock;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The most functions and methods that can be wrapped.
const PLACES: usize = 48;
/// As many arguments are put together without the heap.
const FEW: usize = 8;

type Vectorcall = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    usize,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// What a function was, and what takes calls with the keywords.
struct Wrapped {
    original: Py<PyAny>,
    other: Py<PyAny>,
}

static WRAPPED: [OnceLock<Wrapped>; PLACES] = [const { OnceLock::new() }; PLACES];

/// Adds the functions of this part to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_function_with_keywords, module)?)?;
    module.add_function(wrap_pyfunction!(_method_with_keywords, module)?)
}

/// A function that calls `other` where one of the keywords is given, and `original` elsewhere. It says
/// that it is one of `module`, by whose name it is pickled.
#[pyfunction]
fn _function_with_keywords<'py>(
    module: &Bound<'py, PyModule>,
    name: &str,
    original: &Bound<'py, PyAny>,
    other: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let definition = definition(name, "$module", original, FUNCTIONS[wrap(original, other)?])?;
    // SAFETY: the definition lives for ever; the module is alive, and it takes a count of its own.
    unsafe {
        let made = ffi::PyCFunction_NewEx(definition, module.as_ptr(), module.name()?.as_ptr());
        Bound::from_owned_ptr_or_err(module.py(), made)
    }
}

/// The same as a method of a class.
#[pyfunction]
fn _method_with_keywords<'py>(
    owner: &Bound<'py, PyType>,
    name: &str,
    original: &Bound<'py, PyAny>,
    other: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let definition = definition(name, "$self", original, METHODS[wrap(original, other)?])?;
    // SAFETY: the definition lives for ever, and the class is a type.
    unsafe {
        let made = ffi::PyDescr_NewMethod(owner.as_type_ptr(), definition);
        Bound::from_owned_ptr_or_err(owner.py(), made)
    }
}

/// Takes a place, for ever.
fn wrap(original: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<usize> {
    let (original, other) = (original.clone().unbind(), other.clone().unbind());
    let mut wrapped = Some(Wrapped { original, other });
    let place = WRAPPED.iter().position(|place| match wrapped.take() {
        Some(ours) => place.set(ours).map_err(|ours| wrapped = Some(ours)).is_ok(),
        None => false,
    });
    place.ok_or_else(|| PyRuntimeError::new_err("too many functions are wrapped"))
}

/// What CPython keeps of a function, for ever. `owner` is what `inspect.signature` leaves out of functions, and
/// shows first of methods.
fn definition(
    name: &str,
    owner: &str,
    original: &Bound<'_, PyAny>,
    call: ffi::PyCFunctionFastWithKeywords,
) -> PyResult<*mut ffi::PyMethodDef> {
    let about: Option<String> = original.getattr("__doc__")?.extract()?;
    let keywords = "*args, device_layout=None, stick_dims=None, **kwargs";
    let about = format!("{name}({owner}, /, {keywords})\n--\n\n{}", about.unwrap_or_default());
    let text = |text: String| CString::new(text.replace('\0', "")).unwrap_or_default().into_raw();
    Ok(Box::into_raw(Box::new(ffi::PyMethodDef {
        ml_name: text(name.to_owned()),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: call },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: text(about).cast_const(),
    })))
}

/// # Safety
/// CPython's: the objects are alive, there are as many as it says, and the interpreter is held.
unsafe extern "C" fn function<const AT: usize>(
    _module: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let Some(wrapped) = WRAPPED[AT].get() else { return ptr::null_mut() };
    // SAFETY: as promised.
    unsafe { call(wrapped.callee(names), arguments, count as usize, names) }
}

/// # Safety
/// CPython's, as above; `own` is the object that the method was called on.
unsafe extern "C" fn method<const AT: usize>(
    own: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let Some(wrapped) = WRAPPED[AT].get() else { return ptr::null_mut() };
    // SAFETY: as promised; keyword arguments lie behind the others.
    unsafe {
        let named = if names.is_null() { 0 } else { ffi::PyTuple_Size(names) };
        let all = (count + named) as usize;
        let mut few = [ptr::null_mut(); FEW];
        let mut many;
        let with_own: &mut [*mut ffi::PyObject] = if all < FEW {
            &mut few[..=all]
        } else {
            many = vec![ptr::null_mut(); all + 1];
            &mut many
        };
        with_own[0] = own;
        ptr::copy_nonoverlapping(arguments, with_own[1..].as_mut_ptr(), all);
        call(wrapped.callee(names), with_own.as_ptr(), count as usize + 1, names)
    }
}

/// One function for each place: what CPython calls knows nothing but its address.
macro_rules! for_each_place {
    ($call:ident: $($at:literal)*) => { [$($call::<$at>),*] };
    ($call:ident) => {
        for_each_place!($call:
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
            24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47)
    };
}

static FUNCTIONS: [ffi::PyCFunctionFastWithKeywords; PLACES] = for_each_place!(function);
static METHODS: [ffi::PyCFunctionFastWithKeywords; PLACES] = for_each_place!(method);

impl Wrapped {
    /// What a call with these names is for.
    ///
    /// # Safety
    /// `names` is null or a tuple of texts, and the interpreter is held.
    #[inline]
    unsafe fn callee(&self, names: *mut ffi::PyObject) -> *mut ffi::PyObject {
        // SAFETY: as promised.
        let callee = if unsafe { is_ours(names) } { &self.other } else { &self.original };
        callee.as_ptr()
    }
}

/// Whether one of the keywords is among the names of a call.
///
/// # Safety
/// `names` is null or a tuple of texts, and the interpreter is held.
#[inline]
unsafe fn is_ours(names: *mut ffi::PyObject) -> bool {
    if names.is_null() {
        return false;
    }
    // SAFETY: as promised; the texts here end with a zero.
    unsafe {
        let is = |name: *mut ffi::PyObject, text: &std::ffi::CStr| -> bool {
            let different: c_int = ffi::PyUnicode_CompareWithASCIIString(name, text.as_ptr());
            different == 0
        };
        (0..ffi::PyTuple_Size(names)).any(|at| {
            let name = ffi::PyTuple_GetItem(names, at);
            is(name, c"device_layout") || is(name, c"stick_dims")
        })
    }
}

/// Calls an object with arguments as they came: CPython's `PyObject_Vectorcall` where it has one.
///
/// # Safety
/// CPython's: `count` arguments, and behind them one for each name.
#[inline]
unsafe fn call(
    callee: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as promised.
    unsafe {
        match vectorcall() {
            Some(vectorcall) => vectorcall(callee, arguments, count, names),
            None => call_by_tuple(callee, arguments, count, names),
        }
    }
}

/// It is in every CPython since 3.11, but part of the stable interface only since 3.12.
fn vectorcall() -> Option<Vectorcall> {
    static FOUND: OnceLock<Option<Vectorcall>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: the name ends with a zero; a symbol of this name has this type.
        unsafe {
            let found = libc::dlsym(libc::RTLD_DEFAULT, c"PyObject_Vectorcall".as_ptr());
            (!found.is_null()).then(|| std::mem::transmute::<*mut libc::c_void, Vectorcall>(found))
        }
    })
}

/// # Safety
/// As for [`call`].
#[cold]
unsafe fn call_by_tuple(
    callee: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as promised; each object that is put into a container has a count for it.
    unsafe {
        let tuple = ffi::PyTuple_New(count as ffi::Py_ssize_t);
        if tuple.is_null() {
            return tuple;
        }
        for at in 0..count {
            let argument = *arguments.add(at);
            ffi::Py_INCREF(argument);
            ffi::PyTuple_SetItem(tuple, at as ffi::Py_ssize_t, argument);
        }
        let named = if names.is_null() { ptr::null_mut() } else { ffi::PyDict_New() };
        let mut is_bad = false;
        if !names.is_null() {
            for at in 0..ffi::PyTuple_Size(names) {
                let value = *arguments.add(count + at as usize);
                is_bad |= ffi::PyDict_SetItem(named, ffi::PyTuple_GetItem(names, at), value) != 0;
            }
        }
        let result = match is_bad {
            true => ptr::null_mut(),
            false => ffi::PyObject_Call(callee, tuple, named),
        };
        ffi::Py_DECREF(tuple);
        ffi::Py_XDECREF(named);
        result
    }
}
