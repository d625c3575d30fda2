//! Ops that the card carries out.

use std::ffi::{CString, c_char};
use std::rc::Rc;
use std::sync::LazyLock;

use smallvec::SmallVec;
use spyre::aten::{Call, Decline, Op, Recipe, ResultShape};
use spyre::numerics::DType;

use super::entry;
use super::launches::list;
use super::view::{RawView, dtype_of, number_of};
use crate::cards;
use crate::failure::{Failure, Kind};
use crate::native::{self, CACHED_CALL, CachedCall, Key, Known, PENDING, Pending, RawArgument};
use crate::recording;

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

/// Results and temporaries of a call, at most: the shim has room for so many.
const MOST_RESULTS: usize = 16;

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
        if !native::is_on() {
            return Err(unsupported("EAGER_MODE is 0"));
        }
        let mut key = Key::new();
        key.extend([call.op as u64, call.device as u64, call.default_dtype as u64]);
        // SAFETY: as above.
        let is_key = unsafe { native::add_to_key(raw, &mut key) };
        // A recording notes the tensors of every call.
        let may_be_known = is_key && !recording::is_on();
        let known = if may_be_known { native::known(&key) } else { Known::New };
        // One that was kept with memory that lies otherwise is kept anew.
        let is_seen = !matches!(known, Known::New);
        if let Known::Cached(cached) = known {
            // SAFETY: the shim gives room for as many results as an op has.
            if unsafe { again(call, cached, results, count)? } {
                return Ok(());
            }
        }
        // SAFETY: as above.
        let recipe = match unsafe { recipe_of(call)? } {
            Ok(recipe) => recipe,
            Err(Decline::ResultShape { size, stride }) => {
                // SAFETY: as above.
                return unsafe { resize(&size, &stride, results) };
            }
            Err(decline) => return Err(unsupported(decline)),
        };
        if recipe.results.len() > MOST_RESULTS {
            let results = recipe.results.len();
            return Err(unsupported(format!("{results} results are more than {MOST_RESULTS}")));
        }
        let key = is_seen.then_some(key);
        // SAFETY: the shim gives room for as many results as an op has.
        unsafe { *count = recipe.results.len() as i64 };
        if recipe.results.is_empty() {
            // SAFETY: as above.
            return unsafe { carry_out(call, recipe, key, &[]) };
        }
        PENDING.with_borrow_mut(|pending| {
            *pending = Pending { recipe, key };
            // SAFETY: as above.
            unsafe { ask_for(&pending.recipe.results, results) };
        });
        Ok(())
    }

    /// Carries out what the thread's last call said, with the results that were made.
    fn spyre_call_with(call: *const RawCall, results: *const RawView, count: i64) {
        // SAFETY: the shim fills what it gives.
        let (call, results) = unsafe { (&*call, list(results, count)) };
        if let Some(cached) = CACHED_CALL.take() {
            // SAFETY: as above.
            let raw = unsafe { list(call.arguments, call.count) };
            // SAFETY: as above.
            if unsafe { cached.launch(cards::card(call.device)?, raw, results)? } {
                return Ok(());
            }
            // SAFETY: as above.
            let recipe = unsafe { recipe_of(call)? }.map_err(unsupported)?;
            // SAFETY: as above.
            return unsafe { carry_out(call, recipe, None, results) };
        }
        let Pending { recipe, key } = PENDING.take();
        // SAFETY: as above.
        unsafe { carry_out(call, recipe, key, results) }
    }
}

/// Recipe for a call: the launches that carry it out.
///
/// # Safety
/// The call's pointers are good.
unsafe fn recipe_of(call: &RawCall) -> Result<Result<Recipe, Decline>, Failure> {
    // SAFETY: as promised.
    let raw = unsafe { list(call.arguments, call.count) };
    // SAFETY: as promised.
    let written = unsafe { list(call.written.cast::<usize>(), call.written_count) };
    let op = Op::numbered(call.op as usize);
    let op = op.ok_or_else(|| Failure::runtime(format!("there is no op {}", call.op)))?;
    // SAFETY: as promised.
    let lists = unsafe { native::lists_of(raw)? };
    // SAFETY: as promised.
    let arguments = unsafe { native::arguments_of(raw, &lists)? };
    let default = dtype_of(call.default_dtype)?;
    Ok(op.recipe(&Call { arguments: &arguments, written, default }))
}

/// Carries a call out as one before it was, or says which results are to be made for that. `false` if the
/// memory does not lie as it did.
///
/// # Safety
/// The call's pointers are good, and there is room for as many results as an op has.
unsafe fn again(
    call: &RawCall,
    cached: Rc<CachedCall>,
    results: *mut RawResult,
    count: *mut i64,
) -> Result<bool, Failure> {
    // SAFETY: as promised.
    unsafe { *count = cached.results.len() as i64 };
    if cached.results.is_empty() {
        // SAFETY: as promised.
        let raw = unsafe { list(call.arguments, call.count) };
        // SAFETY: as promised.
        return unsafe { cached.launch(cards::card(call.device)?, raw, &[]) };
    }
    // SAFETY: as promised; what is pointed to is kept until the thread's next call.
    unsafe { ask_for(&cached.results, results) };
    CACHED_CALL.set(Some(cached));
    Ok(true)
}

/// Launches a recipe, and keeps the call if there is a key.
///
/// # Safety
/// The pointers are good.
unsafe fn carry_out(
    call: &RawCall,
    recipe: Recipe,
    key: Option<Key>,
    results: &[RawView],
) -> Result<(), Failure> {
    // SAFETY: as promised.
    let raw = unsafe { list(call.arguments, call.count) };
    let card = cards::card(call.device)?;
    // SAFETY: as promised.
    let launches = unsafe { native::launch(card, &recipe, raw, results, key.is_some())? };
    if let (Some(key), Some(launches)) = (key, launches) {
        native::keep(&key, recipe.results, launches);
    }
    Ok(())
}

/// # Safety
/// There is room for them; they stay where they are until they are read.
unsafe fn ask_for(shapes: &[ResultShape], results: *mut RawResult) {
    for (at, result) in shapes.iter().enumerate() {
        // SAFETY: as promised.
        unsafe { *results.add(at) = RawResult::of(result) };
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
unsafe fn resize(size: &[usize], stride: &[usize], results: *mut RawResult) -> Result<(), Failure> {
    PENDING.with_borrow_mut(|pending| {
        let size = SmallVec::from(size);
        let stride = SmallVec::from(stride);
        let shape = ResultShape { dtype: DType::Bool, size, stride };
        pending.recipe.results = SmallVec::from_iter([shape]);
        // SAFETY: as promised.
        unsafe { ask_for(&pending.recipe.results, results) };
    });
    Err(Failure::new(Kind::Resize, "a result has another shape"))
}

fn unsupported(why: impl std::fmt::Display) -> Failure {
    Failure::new(Kind::Unsupported, why)
}
