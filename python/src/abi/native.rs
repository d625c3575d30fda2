//! Ops that the card carries out.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::marker::PhantomData;
use std::slice;
use std::sync::LazyLock;

use smallvec::SmallVec;
use spyre::aten::{Call, Decline, Op, Recipe, ResultShape};
use spyre::numerics::DType;

use super::guarded;
use super::memory::{NewMemory, SpyreMemory};
use super::view::{dtype_of, number_of};
use crate::call_cache::{Key, Known};
use crate::cards;
use crate::failure::{Failure, SpyreStatus};
use crate::native::{self, SpyreArgument};
use crate::recording;

/// A call of an op, which the shim holds until it returns.
#[repr(C)]
pub struct SpyreCall<'a> {
    op: i32,
    device: i32,
    default_dtype: i32,
    arguments: *const SpyreArgument<'a>,
    count: i64,
    /// Indices of the arguments that are written.
    written: *const i64,
    written_count: i64,
    /// Room for the results that the shim takes; an op may make more, for itself.
    results: *mut SpyreResult,
    room: i64,
    held: PhantomData<&'a ()>,
}

/// A tensor that was made. Its numbers are good until the thread's next call.
#[repr(C)]
pub struct SpyreResult {
    dtype: i32,
    dim: i64,
    sizes: *const i64,
    strides: *const i64,
    memory: SpyreMemory,
    host_bytes: i64,
}

thread_local! {
    /// Shapes of the calling thread's last results, which the shim reads.
    static SHAPES: RefCell<SmallVec<[ResultShape; 1]>> = RefCell::default();
}

static NAMES: LazyLock<Vec<CString>> =
    LazyLock::new(|| Op::all().filter_map(|op| CString::new(op.name()).ok()).collect());

/// The name of the op of this number, without its namespace; null past the last.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_op_name(op: i32) -> *const c_char {
    NAMES.get(op as usize).map_or(std::ptr::null(), |name| name.as_ptr())
}

/// Carries a call out: makes its results, and queues its launches. Says how many results there are.
///
/// If tensors that are written have another shape than the result, the status is `Resize`, and the first result says
/// which shape they are to have.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_call(call: &SpyreCall<'_>, made: &mut i64) -> SpyreStatus {
    guarded(|| {
        if !native::is_on() {
            return Err(unsupported("EAGER_MODE is 0"));
        }
        let arguments = call.arguments();
        let mut key = Key::new();
        key.extend([call.op as u64, call.device as u64, call.default_dtype as u64]);
        let is_key = native::add_to_key(arguments, &mut key);
        // A recording notes the tensors of every call.
        let may_be_known = is_key && !recording::is_on();
        let known = if may_be_known { native::known(&key) } else { Known::New };
        // One that was kept with memory that lies otherwise is kept anew.
        let is_seen = !matches!(known, Known::New);
        let card = cards::card(call.device)?;
        if let Known::Cached(cached) = known
            && let Some(memories) = cached.launch(card, arguments)?
        {
            *made = call.give(cached.results.iter().map(|result| &result.shape), memories);
            return Ok(());
        }
        let recipe = match call.recipe()? {
            Ok(recipe) => recipe,
            Err(Decline::ResultShape { size, stride }) => return Err(call.resize(&size, &stride)),
            Err(decline) => return Err(unsupported(decline)),
        };
        let new = native::carry_out(card, recipe, arguments, is_seen.then_some(key))?;
        SHAPES.with_borrow_mut(|shapes| {
            *shapes = new.shapes;
            *made = call.give(shapes.iter(), new.memories);
        });
        Ok(())
    })
}

impl<'a> SpyreCall<'a> {
    fn arguments(&self) -> &[SpyreArgument<'a>] {
        if self.count <= 0 {
            return &[];
        }
        // SAFETY: the shim alone makes calls, of so many arguments that it holds until the call returns.
        unsafe { slice::from_raw_parts(self.arguments, self.count as usize) }
    }

    fn written(&self) -> &[usize] {
        if self.written_count <= 0 {
            return &[];
        }
        // SAFETY: the shim alone makes calls, of so many indices, none of them negative.
        unsafe { slice::from_raw_parts(self.written.cast(), self.written_count as usize) }
    }

    /// Recipe for the call: the launches that carry it out.
    fn recipe(&self) -> Result<Result<Recipe, Decline>, Failure> {
        let op = Op::numbered(self.op as usize);
        let op = op.ok_or_else(|| Failure::runtime(format!("there is no op {}", self.op)))?;
        let lists = native::lists_of(self.arguments())?;
        let arguments = native::arguments_of(self.arguments(), &lists)?;
        let default = dtype_of(self.default_dtype)?;
        let call = Call { arguments: &arguments, written: self.written(), default };
        Ok(op.recipe(&call))
    }

    /// Gives the results to the shim, as far as it has room; the rest were for the launches, and are freed.
    #[inline]
    fn give<'s>(
        &self,
        shapes: impl Iterator<Item = &'s ResultShape>,
        memories: impl IntoIterator<Item = NewMemory>,
    ) -> i64 {
        let results = shapes.zip(memories).take(self.room.max(0) as usize);
        let mut given = 0;
        for (shape, memory) in results {
            let result = SpyreResult::of(shape, memory);
            // SAFETY: the shim has room for so many results.
            unsafe { self.results.add(given).write(result) };
            given += 1;
        }
        given as i64
    }

    /// Says which shape the result is to have before the call is made again.
    fn resize(&self, size: &[usize], stride: &[usize]) -> Failure {
        let size = SmallVec::from(size);
        let stride = SmallVec::from(stride);
        SHAPES.with_borrow_mut(|shapes| {
            *shapes = SmallVec::from_iter([ResultShape { dtype: DType::Bool, size, stride }]);
            self.give(shapes.iter(), [NewMemory::NONE]);
        });
        Failure::new(SpyreStatus::Resize, "a result has another shape")
    }
}

impl SpyreResult {
    pub(crate) fn of(shape: &ResultShape, memory: NewMemory) -> Self {
        let host_bytes = memory.memory().map_or(0, |memory| memory.host_bytes() as i64);
        Self {
            dtype: number_of(shape.dtype),
            dim: shape.size.len() as i64,
            sizes: shape.size.as_ptr().cast(),
            strides: shape.stride.as_ptr().cast(),
            memory: memory.into_memory(),
            host_bytes,
        }
    }
}

fn unsupported(why: impl std::fmt::Display) -> Failure {
    Failure::new(SpyreStatus::Unsupported, why)
}
