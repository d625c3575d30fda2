use std::cell::RefCell;
use std::sync::Arc;

use smallvec::SmallVec;
use spyre_numerics::{DType, Profile};

use crate::Error;
use crate::memory::nest_cache::hash;
use crate::memory::storage_layout::{SharedLayout, StorageLayout};

/// Layouts that a thread keeps.
const KEPT: usize = 256;

type Key = SmallVec<[usize; 16]>;

thread_local! {
    static LAYOUTS: RefCell<Vec<Option<(Key, SharedLayout)>>> = const { RefCell::new(Vec::new()) };
}

/// The layout of a new tensor of this shape, which all tensors of the shape that a thread makes share.
/// See [`StorageLayout::of_shape`].
#[inline]
pub fn shared_layout(
    profile: Profile,
    size: &[usize],
    stride: &[usize],
    dtype: DType,
) -> Result<SharedLayout, Error> {
    kept(profile, Some((size, stride, dtype)), 0)
}

/// The layout of so many bytes of no dtype. See [`StorageLayout::bytes`].
pub fn shared_bytes(profile: Profile, bytes: usize) -> Result<SharedLayout, Error> {
    kept(profile, None, bytes)
}

#[inline]
fn kept(
    profile: Profile,
    shape: Option<(&[usize], &[usize], DType)>,
    bytes: usize,
) -> Result<SharedLayout, Error> {
    let mut key = Key::new();
    key.push(profile as usize);
    match shape {
        None => key.push(bytes),
        Some((size, stride, dtype)) => {
            key.push(dtype as usize);
            key.push(size.len());
            key.extend_from_slice(size);
            key.extend_from_slice(stride);
        }
    }
    let at = hash(&key) as usize % KEPT;
    LAYOUTS.with_borrow_mut(|layouts| {
        if let Some(Some((known, layout))) = layouts.get(at)
            && *known == key
        {
            return Ok(Arc::clone(layout));
        }
        let layout = Arc::new(match shape {
            None => StorageLayout::bytes(bytes)?,
            Some((size, stride, dtype)) => StorageLayout::of_shape(profile, size, stride, dtype)?,
        });
        layouts.resize_with(KEPT, || None);
        layouts[at] = Some((key, Arc::clone(&layout)));
        Ok(layout)
    })
}
