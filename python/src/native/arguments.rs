#![allow(unsafe_code, reason = "pointers of a framework that is written in C++")]

use std::ffi::{CStr, c_char};
use std::slice;

use smallvec::SmallVec;
use spyre::artifact::Constant;
use spyre::aten::{Argument, Number, Tensor};

use super::Key;
use crate::abi::{RawView, dtype_of};
use crate::failure::Failure;

/// `SpyreArgument` in `csrc/spyre.h`.
#[repr(C)]
pub(crate) struct RawArgument {
    kind: i32,
    /// Dtype of a host tensor that is taken for a number; -1 for a mere number.
    dtype: i32,
    count: i64,
    integer: i64,
    real: f64,
    imaginary: f64,
    list: *const std::ffi::c_void,
}

const NONE: i32 = 0;
const TENSOR: i32 = 1;
const TENSORS: i32 = 2;
const INT: i32 = 3;
const FLOAT: i32 = 4;
const BOOL: i32 = 5;
const INTS: i32 = 6;
const FLOATS: i32 = 7;
const BOOLS: i32 = 8;
const STRING: i32 = 9;
const RANDOM: i32 = 10;

/// Tensors of lists, which arguments borrow from.
pub(crate) type Lists<'a> = SmallVec<[SmallVec<[Option<Tensor<'a>>; 8]>; 1]>;

impl RawArgument {
    /// A tensor of it.
    ///
    /// # Safety
    /// The pointer is good for as many views as it says.
    pub(crate) unsafe fn view(&self, item: usize) -> Option<&RawView> {
        let count = match self.kind {
            TENSOR => 1,
            TENSORS => self.count as usize,
            _ => 0,
        };
        if item >= count {
            return None;
        }
        // SAFETY: as promised.
        Some(unsafe { &*self.list.cast::<RawView>().add(item) })
    }

    /// # Safety
    /// As for [`view`](Self::view), for `'a`.
    unsafe fn items<T>(&self) -> &[T] {
        match self.count {
            0 => &[],
            // SAFETY: as promised.
            count => unsafe { slice::from_raw_parts(self.list.cast(), count as usize) },
        }
    }

    /// # Safety
    /// The pointer is good for as many items as it says.
    #[inline]
    unsafe fn add_to_key(&self, key: &mut Key) -> bool {
        // SAFETY: as promised, in all of these.
        unsafe {
            match self.kind {
                TENSOR => return self.view(0).is_some_and(|view| view.add_to_key(key)),
                TENSORS => {
                    key.push(self.count as u64);
                    return self.items::<RawView>().iter().all(|view| view.add_to_key(key));
                }
                INT | BOOL => key.push(self.integer as u64),
                FLOAT => key.extend([self.real.to_bits(), self.imaginary.to_bits()]),
                INTS | FLOATS => {
                    key.push(self.count as u64);
                    key.extend_from_slice(self.items());
                }
                BOOLS => {
                    key.push(self.count as u64);
                    key.extend(self.items::<u8>().iter().map(|&flag| u64::from(flag)));
                }
                STRING => {
                    let text = CStr::from_ptr(self.list.cast()).to_bytes();
                    key.push(text.len() as u64);
                    key.extend(text.iter().map(|&byte| u64::from(byte)));
                }
                NONE => {}
                // What is new each time, such as random numbers, is never the same call.
                _ => return false,
            }
        }
        true
    }

    fn number(&self, value: Constant) -> Result<Argument<'_>, Failure> {
        let dtype = if self.dtype < 0 { None } else { Some(dtype_of(self.dtype)?) };
        Ok(Argument::Number(Number { value, imaginary: self.imaginary, dtype }))
    }
}

/// Adds all that a call's kernels depend on to a key; `false` if there is none: a tensor has a layout of
/// its own, or something is new each time.
///
/// # Safety
/// Their pointers are good.
#[inline]
pub(crate) unsafe fn add_to_key(raw: &[RawArgument], key: &mut Key) -> bool {
    for argument in raw {
        key.push(argument.kind as u64 | (argument.dtype as u64) << 32);
        // SAFETY: as promised.
        if !unsafe { argument.add_to_key(key) } {
            return false;
        }
    }
    // SAFETY: as promised.
    key.push(unsafe { same_memory(raw) });
    true
}

/// Pairs of a call's tensors that are in the same memory, one bit for each of the first pairs. A call that
/// writes in place thus has another key than one that does not.
///
/// # Safety
/// Their pointers are good.
#[inline]
unsafe fn same_memory(raw: &[RawArgument]) -> u64 {
    let tensors = raw.iter().filter(|argument| argument.kind == TENSOR);
    // SAFETY: as promised.
    let places = tensors.filter_map(|argument| unsafe { argument.view(0) }.map(|view| view.data));
    let places: SmallVec<[_; 8]> = places.collect();
    let mut same = 0;
    let mut bit = 1_u64;
    for (at, place) in places.iter().enumerate() {
        for other in &places[..at] {
            same |= if place == other { bit } else { 0 };
            bit <<= 1;
        }
    }
    same
}

/// The arguments of a call; `lists` holds what those that are lists of tensors point to.
///
/// # Safety
/// Their pointers are good for as long as they are borrowed.
pub(crate) unsafe fn lists_of(raw: &[RawArgument]) -> Result<Lists<'_>, Failure> {
    let mut lists = Lists::new();
    for argument in raw.iter().filter(|argument| argument.kind == TENSORS) {
        // SAFETY: as promised.
        let views: &[RawView] = unsafe { argument.items() };
        // SAFETY: as promised.
        let items = views.iter().map(|view| unsafe { tensor(view) });
        lists.push(items.collect::<Result<_, _>>()?);
    }
    Ok(lists)
}

/// # Safety
/// As for [`lists_of`].
pub(crate) unsafe fn arguments_of<'a, 'b: 'a>(
    raw: &'a [RawArgument],
    lists: &'a Lists<'b>,
) -> Result<SmallVec<[Argument<'a>; 8]>, Failure> {
    let mut lists = lists.iter();
    let mut arguments = SmallVec::new();
    for argument in raw {
        // SAFETY: as promised.
        arguments.push(unsafe {
            match argument.kind {
                TENSOR => match tensor(&*argument.list.cast::<RawView>())? {
                    Some(tensor) => Argument::Tensor(tensor),
                    None => Argument::None,
                },
                TENSORS => lists.next().map_or(Argument::None, |list| Argument::Tensors(list)),
                INT => argument.number(Constant::Int(argument.integer))?,
                FLOAT => argument.number(Constant::Float(argument.real))?,
                BOOL => argument.number(Constant::Bool(argument.integer != 0))?,
                INTS => Argument::Ints(argument.items()),
                FLOATS => Argument::Floats(argument.items()),
                BOOLS => Argument::Bools(argument.items()),
                STRING => text(argument.list.cast()),
                RANDOM => Argument::Random {
                    seed: argument.integer.cast_unsigned(),
                    offset: argument.count.cast_unsigned(),
                },
                NONE => Argument::None,
                other => {
                    return Err(Failure::runtime(format!("there is no argument of kind {other}")));
                }
            }
        });
    }
    Ok(arguments)
}

/// # Safety
/// The text ends with a zero.
unsafe fn text<'a>(text: *const c_char) -> Argument<'a> {
    // SAFETY: as promised.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_or(Argument::None, Argument::String)
}

/// # Safety
/// The view's pointers are good for `'a`.
unsafe fn tensor(view: &RawView) -> Result<Option<Tensor<'_>>, Failure> {
    if view.is_nothing() {
        return Ok(None);
    }
    // SAFETY: as promised.
    let shape = unsafe { view.shape()? };
    Ok(Some(Tensor { dtype: shape.dtype, size: shape.size, stride: shape.stride }))
}
