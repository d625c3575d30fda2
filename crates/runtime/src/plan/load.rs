use std::sync::atomic::{AtomicBool, Ordering};

use spyre_flex::{Event, Ticket};

use crate::{Error, SpyreStream};

/// Copies of program images that were queued on the device's loader.
///
/// They do not depend on any stream of a caller: what fails there cancels no copy here. A stream that
/// launches the programs waits for the copies on the device, as long as they may be under way.
#[derive(Debug)]
pub(crate) struct Load {
    ticket: Ticket,
    event: Event,
    is_done: AtomicBool,
}

impl Load {
    /// Stands for everything that was queued on the loader so far.
    pub(crate) fn of(loader: &SpyreStream) -> Result<Self, Error> {
        let event = Event::new();
        let point = loader.flex().record(&event)?;
        Ok(Self { ticket: loader.ticket(point), event, is_done: AtomicBool::new(false) })
    }

    /// Has what a stream is given from now on wait for the copies. `false` if they failed, and the
    /// programs must be loaded anew.
    #[inline]
    pub(crate) fn is_ready_on(&self, stream: &SpyreStream) -> Result<bool, Error> {
        if self.is_done.load(Ordering::Acquire) {
            return Ok(true);
        }
        self.wait_on(stream)
    }

    #[cold]
    fn wait_on(&self, stream: &SpyreStream) -> Result<bool, Error> {
        match self.ticket.query() {
            Ok(true) => self.is_done.store(true, Ordering::Release),
            Ok(false) => stream.flex().wait(&self.event)?,
            Err(spyre_flex::Error::Stream(_) | spyre_flex::Error::Forgotten { .. }) => {
                return Ok(false);
            }
            Err(other) => return Err(other.into()),
        }
        Ok(true)
    }
}
