//! Arguments of calls.
#![allow(unsafe_code, reason = "lists of the shim")]

use std::ffi::c_void;
use std::marker::PhantomData;
use std::slice;

use smallvec::SmallVec;
use spyre::artifact::Constant;
use spyre::aten::{Argument, Number};
use spyre::layout::TensorView;

use crate::abi::{SpyreText, SpyreView, dtype_of};
use crate::call_cache::Key;
use crate::failure::Failure;

/// Kind of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(dead_code, reason = "the shim makes them")]
pub enum SpyreArgumentKind {
    None,
    Tensor,
    /// Several; a view with a negative `dim` stands for one that is missing.
    Tensors,
    Int,
    Float,
    Bool,
    Ints,
    Floats,
    Bools,
    String,
    /// Random numbers: a seed (`integer`) and an offset (`count`).
    Random,
}

/// An argument, which the shim holds until the call returns. `list` leads to views, numbers or a text.
#[repr(C)]
pub struct SpyreArgument<'a> {
    kind: SpyreArgumentKind,
    /// Dtype of a host tensor that is taken for a number; -1 for a mere number.
    dtype: i32,
    count: i64,
    integer: i64,
    real: f64,
    imaginary: f64,
    list: *const c_void,
    held: PhantomData<&'a ()>,
}

/// Tensors of lists, which arguments borrow from.
pub(crate) type Lists<'a> = SmallVec<[SmallVec<[Option<TensorView<'a>>; 8]>; 1]>;

impl<'a> SpyreArgument<'a> {
    /// Its tensors: one, several or none.
    #[inline]
    pub(crate) fn views(&self) -> &[SpyreView<'a>] {
        match self.kind {
            SpyreArgumentKind::Tensor | SpyreArgumentKind::Tensors => self.items(),
            _ => &[],
        }
    }

    /// Its list, which is of the type that its kind says.
    #[inline]
    fn items<T>(&self) -> &'a [T] {
        if self.count <= 0 {
            return &[];
        }
        // SAFETY: the shim alone makes arguments, whose lists are of the kind's type and as long as `count` says; it
        // holds them for the call.
        unsafe { slice::from_raw_parts(self.list.cast(), self.count as usize) }
    }

    fn text(&self) -> &SpyreText {
        // SAFETY: the shim alone makes arguments: one of this kind has a text, which `list` points to, so that the
        // field is one.
        unsafe { &*(&raw const self.list).cast::<SpyreText>() }
    }

    #[inline]
    fn add_to_key(&self, key: &mut Key) -> bool {
        match self.kind {
            SpyreArgumentKind::Tensor => return self.views()[0].add_to_key(key),
            SpyreArgumentKind::Tensors => {
                key.push(self.count as u64);
                return self.views().iter().all(|view| view.add_to_key(key));
            }
            SpyreArgumentKind::Int | SpyreArgumentKind::Bool => key.push(self.integer as u64),
            SpyreArgumentKind::Float => {
                key.extend([self.real.to_bits(), self.imaginary.to_bits()]);
            }
            SpyreArgumentKind::Ints | SpyreArgumentKind::Floats => {
                key.push(self.count as u64);
                key.extend_from_slice(self.items());
            }
            SpyreArgumentKind::Bools => {
                key.push(self.count as u64);
                key.extend(self.items::<u8>().iter().map(|&flag| u64::from(flag)));
            }
            SpyreArgumentKind::String => {
                let text = self.text().c_str().to_bytes();
                key.push(text.len() as u64);
                key.extend(text.iter().map(|&byte| u64::from(byte)));
            }
            SpyreArgumentKind::None => {}
            // What is new each time, such as random numbers, is never the same call.
            SpyreArgumentKind::Random => return false,
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
#[inline]
pub(crate) fn add_to_key(arguments: &[SpyreArgument<'_>], key: &mut Key) -> bool {
    for argument in arguments {
        key.push(argument.kind as u64 | (argument.dtype as u64) << 32);
        if !argument.add_to_key(key) {
            return false;
        }
    }
    key.push(same_memory(arguments));
    true
}

/// Pairs of a call's tensors that are in the same memory, one bit for each of the first pairs. A call that
/// writes in place thus has another key than one that does not.
#[inline]
fn same_memory(arguments: &[SpyreArgument<'_>]) -> u64 {
    let is_tensor = |argument: &&SpyreArgument<'_>| argument.kind == SpyreArgumentKind::Tensor;
    let tensors = arguments.iter().filter(is_tensor);
    let addresses: SmallVec<[u64; 8]> =
        tensors.map(|argument| argument.views()[0].address()).collect();
    let mut same = 0;
    let mut bit = 1_u64;
    for (at, address) in addresses.iter().enumerate() {
        for other in &addresses[..at] {
            same |= if address == other { bit } else { 0 };
            bit <<= 1;
        }
    }
    same
}

/// Tensors of the arguments that are lists of them, which [`arguments_of`] points to.
pub(crate) fn lists_of<'a>(arguments: &[SpyreArgument<'a>]) -> Result<Lists<'a>, Failure> {
    let is_list = |argument: &&SpyreArgument<'a>| argument.kind == SpyreArgumentKind::Tensors;
    let lists = arguments.iter().filter(is_list);
    lists.map(|argument| argument.views().iter().map(tensor).collect()).collect()
}

/// The arguments of a call.
pub(crate) fn arguments_of<'a, 'b: 'a>(
    arguments: &'a [SpyreArgument<'b>],
    lists: &'a Lists<'b>,
) -> Result<SmallVec<[Argument<'a>; 8]>, Failure> {
    let mut lists = lists.iter();
    let argument = |argument: &'a SpyreArgument<'b>| {
        Ok(match argument.kind {
            SpyreArgumentKind::Tensor => match tensor(&argument.views()[0])? {
                Some(tensor) => Argument::Tensor(tensor),
                None => Argument::None,
            },
            SpyreArgumentKind::Tensors => {
                lists.next().map_or(Argument::None, |list| Argument::Tensors(list))
            }
            SpyreArgumentKind::Int => argument.number(Constant::Int(argument.integer))?,
            SpyreArgumentKind::Float => argument.number(Constant::Float(argument.real))?,
            SpyreArgumentKind::Bool => argument.number(Constant::Bool(argument.integer != 0))?,
            SpyreArgumentKind::Ints => Argument::Ints(argument.items()),
            SpyreArgumentKind::Floats => Argument::Floats(argument.items()),
            SpyreArgumentKind::Bools => Argument::Bools(argument.items()),
            SpyreArgumentKind::String => {
                argument.text().c_str().to_str().map_or(Argument::None, Argument::String)
            }
            SpyreArgumentKind::Random => Argument::Random {
                seed: argument.integer.cast_unsigned(),
                offset: argument.count.cast_unsigned(),
            },
            SpyreArgumentKind::None => Argument::None,
        })
    };
    arguments.iter().map(argument).collect()
}

fn tensor<'a>(view: &SpyreView<'a>) -> Result<Option<TensorView<'a>>, Failure> {
    if view.is_nothing() {
        return Ok(None);
    }
    Ok(Some(TensorView { offset: 0, ..view.tensor()? }))
}
