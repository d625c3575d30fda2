use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};

use spyre_flex::{Context, FlexStream, Priority};
use spyre_hal::StreamIndex;

use crate::Error;
use crate::device::capture_slot::CaptureSlot;

/// Number of a stream in a device's pool: 0 is the default, 1 to 32 are low, 33 to 64 high.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u16);

/// Streams of each priority.
const OF_A_PRIORITY: u16 = 32;

impl StreamId {
    /// The one that is used where the caller names none.
    pub const DEFAULT: Self = Self(0);

    /// The one that programs are loaded through; it is in no pool.
    pub const LOADER: Self = Self(1 + 2 * OF_A_PRIORITY);

    /// Added to a stream's number: the one that copies ahead for it. It is in no pool.
    pub const AHEAD: u16 = 128;

    /// Number of streams of each priority, beside the default.
    pub const OF_A_PRIORITY: u16 = OF_A_PRIORITY;

    /// Priority of the stream.
    pub fn priority(self) -> Priority {
        if self.0 > OF_A_PRIORITY { Priority::High } else { Priority::Low }
    }
}

/// A device's streams, opened when they are first asked for.
#[derive(Debug)]
pub(crate) struct StreamPool {
    streams: [OnceLock<Arc<FlexStream>>; 1 + 2 * OF_A_PRIORITY as usize],
    /// Streams that copy what the next tile needs, on a device with several engines.
    ahead: [OnceLock<Arc<FlexStream>>; 1 + 2 * OF_A_PRIORITY as usize],
    given: [AtomicU16; 2],
    loader: OnceLock<Arc<FlexStream>>,
    captures: [CaptureSlot; 1 + 2 * OF_A_PRIORITY as usize],
}

impl StreamPool {
    /// Next stream of a priority, in turns. One that captures a graph is left out, unless all do.
    pub(crate) fn next(&self, priority: Priority) -> StreamId {
        let next = || {
            let given = self.given[priority as usize].fetch_add(1, Ordering::Relaxed);
            StreamId(1 + priority as u16 * OF_A_PRIORITY + given % OF_A_PRIORITY)
        };
        let is_free = |id: &StreamId| !self.captures[usize::from(id.0)].is_on();
        let mut turns = (0..OF_A_PRIORITY).map(|_| next());
        turns.find(is_free).unwrap_or_else(next)
    }

    /// Number of the stream at this place in the scheduler: streams take places in the order they are opened.
    pub(crate) fn id_of(&self, index: StreamIndex) -> Option<StreamId> {
        let is_it =
            |stream: &OnceLock<Arc<FlexStream>>| stream.get().map(|s| s.index()) == Some(index);
        if is_it(&self.loader) {
            return Some(StreamId::LOADER);
        }
        let place = |streams: &[OnceLock<Arc<FlexStream>>]| streams.iter().position(is_it);
        let ahead = || place(&self.ahead).map(|at| at as u16 + StreamId::AHEAD);
        place(&self.streams).map(|at| at as u16).or_else(ahead).map(StreamId)
    }

    /// The stream that copies ahead for another one; `None` where that is in no pool.
    pub(crate) fn ahead(
        &self,
        id: StreamId,
        context: &Context,
    ) -> Result<Option<Arc<FlexStream>>, Error> {
        match self.ahead.get(usize::from(id.0)) {
            Some(place) => open(place, id, context).map(Some),
            None => Ok(None),
        }
    }

    /// Lets the stream that copies ahead for another one go on, if it failed as that one did. The fault is
    /// reported to the threads that wait for that one.
    pub(crate) fn settle_ahead(&self, id: StreamId) -> Result<(), Error> {
        let ahead = self.ahead.get(usize::from(id.0)).and_then(OnceLock::get);
        ahead.map_or(Ok(()), |stream| settle(stream))
    }

    /// Returns true if any stream copies ahead for another one.
    pub(crate) fn copies_ahead(&self) -> bool {
        self.ahead.iter().any(|stream| stream.get().is_some())
    }

    /// Lets all streams that copy ahead go on.
    pub(crate) fn settle_all_ahead(&self) -> Result<(), Error> {
        self.ahead.iter().filter_map(OnceLock::get).try_for_each(|stream| settle(stream))
    }

    pub(crate) fn stream(&self, id: StreamId, context: &Context) -> Result<Arc<FlexStream>, Error> {
        let place = self.streams.get(usize::from(id.0));
        open(place.ok_or(Error::NoSuchStream { id: id.0 })?, id, context)
    }

    /// A stream's capture; `None` where the stream is in no pool.
    #[inline]
    pub(crate) fn capture_slot(&self, id: StreamId) -> Option<&CaptureSlot> {
        self.captures.get(usize::from(id.0))
    }

    /// The stream that programs are loaded through.
    pub(crate) fn loader(&self, context: &Context) -> Result<Arc<FlexStream>, Error> {
        open(&self.loader, StreamId::LOADER, context)
    }
}

fn settle(stream: &FlexStream) -> Result<(), Error> {
    match stream.query() {
        Ok(_) => Ok(()),
        Err(_) => Ok(stream.reset()?),
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
            ahead: [const { OnceLock::new() }; 1 + 2 * OF_A_PRIORITY as usize],
            given: Default::default(),
            loader: OnceLock::new(),
            captures: std::array::from_fn(|_| CaptureSlot::default()),
        }
    }
}
