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
use pyo3::types::{PyTuple, PyType};

/// The most methods that can be wrapped.
const METHODS: usize = 16;
/// As many arguments are put together without the heap.
const FEW: usize = 8;

type Vectorcall = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    usize,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// What a wrapped method was, and what takes calls with the keywords.
struct Method {
    original: Py<PyAny>,
    other: Py<PyAny>,
}

static WRAPPED: [OnceLock<Method>; METHODS] = [const { OnceLock::new() }; METHODS];

/// Adds the functions of this part to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_function_with_keywords, module)?)?;
    module.add_function(wrap_pyfunction!(_method_with_keywords, module)?)
}

/// A function that calls `other` where one of the keywords is given, and `original` elsewhere.
#[pyfunction]
fn _function_with_keywords<'py>(
    name: &str,
    module: &str,
    original: Bound<'py, PyAny>,
    other: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = original.py();
    let definition = definition(name, &original, function)?;
    let module = module.into_pyobject(py)?;
    let state = PyTuple::new(py, [original, other])?;
    // SAFETY: the definition lives for ever; both objects are alive, and it takes counts of its own.
    unsafe {
        let made = ffi::PyCFunction_NewEx(definition, state.as_ptr(), module.as_ptr());
        Bound::from_owned_ptr_or_err(py, made)
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
    let method = Method { original: original.clone().unbind(), other: other.clone().unbind() };
    let mut method = Some(method);
    let place = WRAPPED.iter().position(|place| match method.take() {
        Some(ours) => place.set(ours).map_err(|ours| method = Some(ours)).is_ok(),
        None => false,
    });
    let full = || PyRuntimeError::new_err("too many methods are wrapped");
    let definition = definition(name, original, METHOD_CALLS[place.ok_or_else(full)?])?;
    // SAFETY: the definition lives for ever, and the class is a type.
    unsafe {
        let made = ffi::PyDescr_NewMethod(owner.as_type_ptr(), definition);
        Bound::from_owned_ptr_or_err(owner.py(), made)
    }
}

/// What CPython keeps of a function, for ever.
fn definition(
    name: &str,
    original: &Bound<'_, PyAny>,
    call: ffi::PyCFunctionFastWithKeywords,
) -> PyResult<*mut ffi::PyMethodDef> {
    let about: Option<String> = original.getattr("__doc__")?.extract()?;
    let text = |text: String| CString::new(text.replace('\0', "")).unwrap_or_default().into_raw();
    Ok(Box::into_raw(Box::new(ffi::PyMethodDef {
        ml_name: text(name.to_owned()),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: call },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: about.map_or(ptr::null(), |about| text(about).cast_const()),
    })))
}

/// # Safety
/// CPython's: the objects are alive, there are as many as it says, and the interpreter is held.
unsafe extern "C" fn function(
    state: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as promised; the state is the tuple of two that it was made with.
    unsafe {
        let callee = ffi::PyTuple_GetItem(state, ffi::Py_ssize_t::from(is_ours(names)));
        call(callee, arguments, count as usize, names)
    }
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
        let callee = if is_ours(names) { &wrapped.other } else { &wrapped.original };
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
        call(callee.as_ptr(), with_own.as_ptr(), count as usize + 1, names)
    }
}

/// One function for each place: what CPython calls knows nothing but its address.
const METHOD_CALLS: [ffi::PyCFunctionFastWithKeywords; METHODS] = [
    method::<0>,
    method::<1>,
    method::<2>,
    method::<3>,
    method::<4>,
    method::<5>,
    method::<6>,
    method::<7>,
    method::<8>,
    method::<9>,
    method::<10>,
    method::<11>,
    method::<12>,
    method::<13>,
    method::<14>,
    method::<15>,
];

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
