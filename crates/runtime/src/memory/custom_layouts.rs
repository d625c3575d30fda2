use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use spyre_layout::SpyreTensorLayout;
use spyre_numerics::DType;

use crate::Error;
use crate::memory::storage_layout::{SharedLayout, StorageLayout};

/// Number of layouts that are kept. The next one removes all of them.
const KEPT: usize = 1024;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    layout: SpyreTensorLayout,
    size: Vec<usize>,
    stride: Vec<usize>,
    dtype: DType,
}

static LAYOUTS: LazyLock<Mutex<HashMap<Key, SharedLayout>>> = LazyLock::new(Mutex::default);

/// A layout that the user chose, for a storage that holds a tensor of this shape. Refused if an element
/// has no place. Tensors of one shape and layout share it.
pub fn shared_custom_layout(
    layout: &SpyreTensorLayout,
    size: &[usize],
    stride: &[usize],
    dtype: DType,
) -> Result<SharedLayout, Error> {
    let key = Key { layout: layout.clone(), size: size.to_vec(), stride: stride.to_vec(), dtype };
    if let Some(known) = LAYOUTS.lock().get(&key) {
        return Ok(Arc::clone(known));
    }
    let layout = layout.clone().for_host(size, stride)?;
    let made = Arc::new(StorageLayout::new(layout, dtype));
    let mut layouts = LAYOUTS.lock();
    if layouts.len() >= KEPT {
        layouts.clear();
    }
    Ok(Arc::clone(layouts.entry(key).or_insert(made)))
}
