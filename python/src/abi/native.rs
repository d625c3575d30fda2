//! Ops that the card carries out.

use std::ffi::{CString, c_char};
use std::sync::LazyLock;

use smallvec::SmallVec;
use spyre::aten::{Call, Decline, Op, ResultShape};
use spyre::numerics::DType;

use super::entry;
use super::launches::list;
use super::view::{RawView, dtype_of, number_of};
use crate::cards;
use crate::failure::{Failure, Kind};
use crate::native::{self, PENDING, RawArgument};

/// `SpyreCall` in `csrc/spyre.h`.
#[repr(C)]
pub(crate) struct RawCall {
    op: i32,
    device: i32,
    arguments: *const RawArgument,
    count: i64,
    written: *const i64,
    written_count: i64,
    default_dtype: i32,
}

/// `SpyreResult` in `csrc/spyre.h`: a tensor to be made.
#[repr(C)]
pub(crate) struct RawResult {
    dtype: i32,
    dim: i64,
    sizes: *const usize,
    strides: *const usize,
}

static NAMES: LazyLock<Vec<CString>> =
    LazyLock::new(|| Op::all().filter_map(|op| CString::new(op.name()).ok()).collect());

/// The name of the op of this number; null past the last.
#[unsafe(no_mangle)]
extern "C" fn spyre_op_name(op: i32) -> *const c_char {
    NAMES.get(op as usize).map_or(std::ptr::null(), |name| name.as_ptr())
}

entry! {
    /// Carries a call out, or says which results are to be made first.
    fn spyre_call(call: *const RawCall, results: *mut RawResult, count: *mut i64) {
        // SAFETY: the shim fills what it gives.
        let call = unsafe { &*call };
        // SAFETY: as above.
        let raw = unsafe { list(call.arguments, call.count) };
        // SAFETY: as above.
        let written = unsafe { list(call.written.cast::<usize>(), call.written_count) };
        if !native::is_on() {
            return Err(elsewhere("EAGER_MODE is 0"));
        }
        let op = Op::numbered(call.op as usize);
        let op = op.ok_or_else(|| Failure::runtime(format!("there is no op {}", call.op)))?;
        // SAFETY: as above.
        let lists = unsafe { native::lists_of(raw)? };
        // SAFETY: as above.
        let arguments = unsafe { native::arguments_of(raw, &lists)? };
        let default = dtype_of(call.default_dtype)?;
        let call_of = Call { arguments: &arguments, written, default };
        let recipe = match op.recipe(&call_of) {
            Ok(recipe) => recipe,
            Err(Decline::ResultShape { size }) => {
                // SAFETY: as above.
                return unsafe { resize(&size, results) };
            }
            Err(decline) => return Err(elsewhere(decline)),
        };
        // SAFETY: the shim gives room for as many results as an op has.
        unsafe { *count = recipe.results.len() as i64 };
        if recipe.results.is_empty() {
            // SAFETY: as above.
            return unsafe { native::launch(cards::card(call.device)?, &recipe, raw, &[]) };
        }
        PENDING.with_borrow_mut(|pending| {
            *pending = recipe;
            for (at, result) in pending.results.iter().enumerate() {
                // SAFETY: as above.
                unsafe { *results.add(at) = RawResult::of(result) };
            }
        });
        Ok(())
    }

    /// Carries out what the thread's last call said, with the results that were made.
    fn spyre_call_with(call: *const RawCall, results: *const RawView, count: i64) {
        // SAFETY: the shim fills what it gives.
        let (call, results) = unsafe { (&*call, list(results, count)) };
        // SAFETY: as above.
        let raw = unsafe { list(call.arguments, call.count) };
        let recipe = PENDING.with_borrow_mut(std::mem::take);
        // SAFETY: as above.
        unsafe { native::launch(cards::card(call.device)?, &recipe, raw, results) }
    }
}

impl RawResult {
    fn of(result: &ResultShape) -> Self {
        Self {
            dtype: number_of(result.dtype),
            dim: result.size.len() as i64,
            sizes: result.size.as_ptr(),
            strides: result.stride.as_ptr(),
        }
    }
}

/// Says what shape the op's result is to have before it is called again.
///
/// # Safety
/// There is room for a result.
unsafe fn resize(size: &[usize], results: *mut RawResult) -> Result<(), Failure> {
    PENDING.with_borrow_mut(|pending| {
        let size = SmallVec::from(size);
        let shape = ResultShape { dtype: DType::Bool, stride: SmallVec::new(), size };
        pending.results = SmallVec::from_iter([shape]);
        // SAFETY: as promised.
        unsafe { *results = RawResult::of(&pending.results[0]) };
    });
    Err(Failure::new(Kind::Resize, "a result has another shape"))
}

fn elsewhere(why: impl std::fmt::Display) -> Failure {
    Failure::new(Kind::Elsewhere, why)
}
