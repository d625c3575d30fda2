use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};

use spyre_flex::{Context, FlexStream, Priority};
use spyre_hal::StreamIndex;

use crate::Error;

/// Which stream of a device's pool: 0 is the default, 1 to 32 are low, 33 to 64 high.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u16);

/// Streams of each priority.
const OF_A_PRIORITY: u16 = 32;

impl StreamId {
    /// The one that is used where nobody says which.
    pub const DEFAULT: Self = Self(0);

    /// The one that programs are loaded through; it is in no pool.
    pub const LOADER: Self = Self(1 + 2 * OF_A_PRIORITY);

    /// How many streams there are of each priority, beside the default.
    pub const OF_A_PRIORITY: u16 = OF_A_PRIORITY;

    /// How urgent it is.
    pub fn priority(self) -> Priority {
        if self.0 > OF_A_PRIORITY { Priority::High } else { Priority::Low }
    }
}

/// A device's streams, opened when they are first asked for.
#[derive(Debug)]
pub(crate) struct StreamPool {
    streams: [OnceLock<Arc<FlexStream>>; 1 + 2 * OF_A_PRIORITY as usize],
    given: [AtomicU16; 2],
    loader: OnceLock<Arc<FlexStream>>,
}

impl StreamPool {
    /// Whose turn it is.
    pub(crate) fn next(&self, priority: Priority) -> StreamId {
        let given = self.given[priority as usize].fetch_add(1, Ordering::Relaxed);
        StreamId(1 + priority as u16 * OF_A_PRIORITY + given % OF_A_PRIORITY)
    }

    /// Which of them has this place in the scheduler: they take places in the order they are opened.
    pub(crate) fn id_of(&self, index: StreamIndex) -> Option<StreamId> {
        let is_it =
            |stream: &OnceLock<Arc<FlexStream>>| stream.get().map(|s| s.index()) == Some(index);
        if is_it(&self.loader) {
            return Some(StreamId::LOADER);
        }
        Some(StreamId(self.streams.iter().position(is_it)? as u16))
    }

    pub(crate) fn stream(&self, id: StreamId, context: &Context) -> Result<Arc<FlexStream>, Error> {
        let place = self.streams.get(usize::from(id.0));
        open(place.ok_or(Error::NoSuchStream { id: id.0 })?, id, context)
    }

    /// The stream that programs are loaded through.
    pub(crate) fn loader(&self, context: &Context) -> Result<Arc<FlexStream>, Error> {
        open(&self.loader, StreamId::LOADER, context)
    }
}

fn open(
    place: &OnceLock<Arc<FlexStream>>,
    id: StreamId,
    context: &Context,
) -> Result<Arc<FlexStream>, Error> {
    if let Some(stream) = place.get() {
        return Ok(Arc::clone(stream));
    }
    let opened = Arc::new(context.stream(id.priority())?);
    Ok(Arc::clone(place.get_or_init(|| opened)))
}

impl Default for StreamPool {
    fn default() -> Self {
        Self {
            streams: [const { OnceLock::new() }; 1 + 2 * OF_A_PRIORITY as usize],
            given: Default::default(),
            loader: OnceLock::new(),
        }
    }
}
