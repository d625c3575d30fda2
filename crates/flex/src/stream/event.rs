use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use spyre_hal::{EventCell, StreamIndex, StreamPoint};

use crate::sync::{AtomicU64, Ordering};
use crate::{Error, Scheduler};

/// A point in a stream that others can wait for, as in CUDA: a wait binds to what was recorded
/// before it, so no two streams can wait for each other.
///
/// ```
/// use std::sync::Arc;
/// use spyre_flex::{Context, Event, Priority};
/// use spyre_hal::NullCard;
///
/// let context = Context::open(Arc::new(NullCard::new()))?;
/// let (first, second) = (context.stream(Priority::Low)?, context.stream(Priority::Low)?);
/// let event = Event::new();
/// first.record(&event)?;
/// second.wait(&event)?;
/// second.synchronize()?;
/// assert!(event.query()?);
/// # Ok::<(), spyre_flex::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Event {
    /// Cell where the time is noted.
    cell: Option<Arc<EventCell>>,
    /// The card that it was first recorded on, which it does not keep open.
    home: OnceLock<Weak<Scheduler>>,
    /// Point where it was recorded last: the block's number, and the stream in the last 16 bits.
    /// Numbers start from 1, so zero is nowhere.
    recorded: AtomicU64,
}

impl Event {
    /// An event that was not recorded yet, and knows no time.
    pub fn new() -> Self {
        Self::default()
    }

    /// An event that also notes when it is reached, which costs a little more.
    pub fn timed() -> Self {
        Self { cell: Some(Arc::default()), ..Self::default() }
    }

    /// Returns true if what was queued before the last record has ended; also if nothing was
    /// recorded. Reports the fault if it never will.
    pub fn query(&self) -> Result<bool, Error> {
        match self.place() {
            Some((scheduler, point)) => scheduler.query_block(point),
            None => Ok(true),
        }
    }

    /// Waits until what was queued before the last record has ended.
    pub fn synchronize(&self) -> Result<(), Error> {
        match self.place() {
            Some((scheduler, point)) => scheduler.wait_for_block(point),
            None => Ok(()),
        }
    }

    /// The time from this event to a later one. Both must be timed, and have been reached.
    pub fn elapsed(&self, later: &Self) -> Result<Duration, Error> {
        let [start, end] = [self.reached_at()?, later.reached_at()?];
        Ok(Duration::from_nanos(end.saturating_sub(start)))
    }

    pub(crate) fn cell(&self) -> Option<Arc<EventCell>> {
        self.cell.clone()
    }

    /// Binds it to the card, if it is not another's.
    pub(crate) fn bind(&self, scheduler: &Arc<Scheduler>) -> Result<(), Error> {
        self.home.get_or_init(|| Arc::downgrade(scheduler));
        if self.is_of(scheduler) { Ok(()) } else { Err(Error::ForeignEvent) }
    }

    /// Returns true if it was first recorded on this card.
    pub(crate) fn is_of(&self, scheduler: &Arc<Scheduler>) -> bool {
        self.home.get().is_some_and(|home| std::ptr::eq(home.as_ptr(), Arc::as_ptr(scheduler)))
    }

    pub(crate) fn set_recorded(&self, point: StreamPoint) {
        self.recorded.store(point.sequence << 16 | u64::from(point.stream.0), Ordering::Release);
    }

    /// Point where it was recorded last.
    pub(crate) fn recorded(&self) -> Option<StreamPoint> {
        let recorded = self.recorded.load(Ordering::Acquire);
        let point = StreamPoint { stream: StreamIndex(recorded as u16), sequence: recorded >> 16 };
        (recorded != 0).then_some(point)
    }

    /// Scheduler and point of the last record. A card that is gone has ended everything.
    pub(crate) fn place(&self) -> Option<(Arc<Scheduler>, StreamPoint)> {
        self.home.get()?.upgrade().zip(self.recorded())
    }

    fn reached_at(&self) -> Result<u64, Error> {
        let is_reached = self.query()?;
        self.recorded().ok_or(Error::NotRecorded)?;
        let cell = self.cell.as_ref().ok_or(Error::NotTimed)?;
        if is_reached { cell.reached_at().ok_or(Error::NotReached) } else { Err(Error::NotReached) }
    }
}
