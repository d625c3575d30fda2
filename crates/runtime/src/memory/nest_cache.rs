use std::cell::RefCell;
use std::hash::Hasher;
use std::sync::Arc;

use smallvec::SmallVec;
use spyre_layout::{DmaNest, Endpoint, SpyreTensorLayout, TensorView};
use spyre_numerics::DataFormat;

use crate::Error;
use crate::memory::storage_layout::SharedLayout;

/// Nests that a thread keeps: a framework copies the same few shapes again and again.
const KEPT: usize = 256;

thread_local! {
    static NESTS: RefCell<Vec<Option<Entry>>> = const { RefCell::new(Vec::new()) };
}

struct Entry {
    key: Key,
    nest: Arc<DmaNest>,
    /// While they are here, no other layout has their addresses, which are part of the key.
    _layouts: [Option<SharedLayout>; 2],
}

type Key = SmallVec<[usize; 24]>;

/// One end of a copy.
#[derive(Clone, Copy)]
pub(crate) enum End<'a> {
    /// Host elements as they lie on the host.
    Host { elements: TensorView<'a>, format: DataFormat },
    /// Elements of a storage.
    Device { elements: TensorView<'a>, layout: &'a SharedLayout, seen: &'a SpyreTensorLayout },
}

impl<'a> End<'a> {
    fn elements(&self) -> &TensorView<'a> {
        match self {
            Self::Host { elements, .. } | Self::Device { elements, .. } => elements,
        }
    }

    fn put(&self, key: &mut Key) {
        let elements = self.elements();
        let (place, format) = match self {
            Self::Host { format, .. } => (0, *format as usize),
            Self::Device { layout, seen, .. } => {
                (Arc::as_ptr(layout) as usize, seen.device_dtype() as usize)
            }
        };
        key.extend([place, format, elements.offset]);
        key.extend_from_slice(elements.stride);
    }

    fn layout(&self) -> Option<SharedLayout> {
        match self {
            Self::Host { .. } => None,
            Self::Device { layout, .. } => Some(Arc::clone(layout)),
        }
    }
}

/// The nest between two ends, from what this thread keeps or made anew.
pub(crate) fn nest(source: End<'_>, target: End<'_>) -> Result<Arc<DmaNest>, Error> {
    let mut key = Key::new();
    key.push(source.elements().size.len());
    key.extend_from_slice(source.elements().size);
    source.put(&mut key);
    target.put(&mut key);
    let at = hash(&key) as usize % KEPT;
    NESTS.with_borrow_mut(|nests| {
        if let Some(Some(entry)) = nests.get(at)
            && entry.key == key
        {
            return Ok(Arc::clone(&entry.nest));
        }
        let nest = Arc::new(derive(source, target)?);
        nests.resize_with(KEPT, || None);
        let entry =
            Entry { key, nest: Arc::clone(&nest), _layouts: [source.layout(), target.layout()] };
        nests[at] = Some(entry);
        Ok(nest)
    })
}

fn derive(source: End<'_>, target: End<'_>) -> Result<DmaNest, Error> {
    let views = [source.elements().view()?, target.elements().view()?];
    let endpoint = |end, at: usize| match end {
        End::Host { format, .. } => Endpoint::host(&views[at], format),
        End::Device { seen, .. } => Endpoint::device(&views[at], seen),
    };
    Ok(DmaNest::derive(endpoint(source, 0), endpoint(target, 1))?)
}

/// A few multiplications: keys are short, and a bad guess costs a derivation only.
pub(crate) fn hash(key: &[usize]) -> u64 {
    struct Fold(u64);
    impl Hasher for Fold {
        fn finish(&self) -> u64 {
            self.0 ^ self.0 >> 32
        }
        fn write(&mut self, bytes: &[u8]) {
            bytes.iter().for_each(|&byte| self.write_usize(usize::from(byte)));
        }
        fn write_usize(&mut self, word: usize) {
            self.0 = (self.0.rotate_left(5) ^ word as u64).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }
    let mut fold = Fold(0);
    key.iter().for_each(|&word| fold.write_usize(word));
    fold.finish() >> 8
}
