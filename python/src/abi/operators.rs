//! Table of operators, as the shim asks for it.

use std::ffi::{CString, c_char};
use std::sync::LazyLock;

use spyre::aten::{Alias, Flag, takes_attention};
use spyre::layout::TensorView;

use super::{SpyreText, SpyreView, guarded};
use crate::failure::SpyreStatus;
use crate::native;

/// Property of an operator that the shim asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(dead_code, reason = "the shim makes them")]
pub enum SpyreFlag {
    MixedDevices,
    Fills,
    SilentResize,
    Range,
    Replaced,
    BorrowsSparse,
    BorrowsCompressed,
    BorrowsNested,
}

/// Names of each flag, as texts of C.
static FLAGGED: LazyLock<Vec<Vec<CString>>> = LazyLock::new(|| {
    let names = |flag: Flag| flag.names().filter_map(|name| CString::new(name).ok()).collect();
    Flag::ALL.map(names).into()
});

/// An op of the namespace `spyre` that is PyTorch's under another name. A result is one of several, or -1 for all.
#[repr(C)]
pub struct SpyreAlias {
    schema: *const c_char,
    op: *const c_char,
    overload: *const c_char,
    result: i32,
}

/// Tensors of an attention; the mask may be missing. Only shapes are read.
#[repr(C)]
pub struct SpyreAttention<'a> {
    query: SpyreView<'a>,
    key: SpyreView<'a>,
    value: SpyreView<'a>,
    mask: SpyreView<'a>,
}

impl SpyreFlag {
    fn flag(self) -> Flag {
        match self {
            Self::MixedDevices => Flag::MixedDevices,
            Self::Fills => Flag::Fills,
            Self::SilentResize => Flag::SilentResize,
            Self::Range => Flag::Range,
            Self::Replaced => Flag::Replaced,
            Self::BorrowsSparse => Flag::BorrowsSparse,
            Self::BorrowsCompressed => Flag::BorrowsCompressed,
            Self::BorrowsNested => Flag::BorrowsNested,
        }
    }
}

/// Returns true if an op, such as `aten::add.out`, has a flag. A name without an overload has those of all.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_has_flag(op: SpyreText, flag: SpyreFlag) -> bool {
    Flag::of(&op.to_str()) & flag.flag().bit() != 0
}

/// Name of a number that is listed with a flag; null past the last.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_flagged_op(flag: SpyreFlag, number: i32) -> *const c_char {
    let at = Flag::ALL.iter().position(|&known| known == flag.flag());
    let name = at.and_then(|at| FLAGGED[at].get(number as usize));
    name.map_or(std::ptr::null(), |name| name.as_ptr())
}

/// Fills in the alias of a number; `false` past the last.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_alias(number: i32, alias: &mut SpyreAlias) -> bool {
    let Some(found) = Alias::ALL.get(number as usize) else { return false };
    let [schema, op, overload] =
        [found.schema, found.op, found.overload].map(std::ffi::CStr::as_ptr);
    let result = found.result.map_or(-1, i32::from);
    *alias = SpyreAlias { schema, op, overload, result };
    true
}

/// Tells if kernels take an attention.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_takes_attention(
    given: &SpyreAttention<'_>,
    dropout: f64,
    has_groups: bool,
    takes: &mut bool,
) -> SpyreStatus {
    guarded(|| {
        let tensors = [&given.query, &given.key, &given.value].map(tensor);
        let mask = if given.mask.is_nothing() { None } else { Some(tensor(&given.mask)) };
        *takes = match (tensors, mask) {
            ([Some(query), Some(key), Some(value)], None | Some(Some(_))) if native::is_on() => {
                takes_attention([query, key, value], mask.flatten(), dropout, has_groups)
            }
            _ => false,
        };
        Ok(())
    })
}

fn tensor<'a>(view: &SpyreView<'a>) -> Option<TensorView<'a>> {
    view.tensor().ok()
}
