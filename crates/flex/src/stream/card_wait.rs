//! Streams that wait for other cards.

use std::sync::Arc;

use parking_lot::Mutex;
use spyre_hal::{Completion, ExternalWork, Label, StreamPoint};

use super::{Event, FlexStream};
use crate::core::Progress;
use crate::{Error, Scheduler};

/// Reason that a wait which was asked to end reports.
const CANCELLED: &str = "it was cancelled";

/// Wait of one card's stream for a point of another card. It ends once: when the point is reached, or
/// when the waiting card is reset.
#[derive(Clone, Debug, Default)]
pub(crate) struct CardWait(Arc<Mutex<WaitState>>);

#[derive(Debug, Default)]
struct WaitState {
    completion: Option<Completion>,
    is_cancelled: bool,
}

impl CardWait {
    /// Ends the wait as the other card's block did.
    pub(crate) fn end(&self, progress: &Progress) {
        self.complete(match progress {
            Progress::Failed(cause) => Err(format!("the other card's {cause}")),
            Progress::Done | Progress::Pending => Ok(()),
        });
    }

    /// Keeps the completion, unless the wait was cancelled on its way here.
    fn begin(&self, completion: Completion) {
        let mut state = self.0.lock();
        if state.is_cancelled {
            drop(state);
            return completion.complete(Err(CANCELLED.to_owned()));
        }
        state.completion = Some(completion);
    }

    fn cancel(&self) {
        self.0.lock().is_cancelled = true;
        self.complete(Err(CANCELLED.to_owned()));
    }

    fn complete(&self, result: Result<(), String>) {
        let completion = self.0.lock().completion.take();
        if let Some(completion) = completion {
            completion.complete(result);
        }
    }
}

impl FlexStream {
    /// Has what is queued from now on wait for what an event of another card stands for.
    pub(super) fn wait_across(&self, event: &Event) -> Result<(), Error> {
        // A card that is gone has ended everything.
        let Some((other, point)) = event.place() else { return Ok(()) };
        if other.is_settled(point) {
            return Ok(());
        }
        let card_wait = CardWait::default();
        let cancelled = card_wait.clone();
        let work = ExternalWork::new(
            Label::default(),
            move |completion| wait_on(&other, point, card_wait, completion),
            move || cancelled.cancel(),
        );
        self.external(work, &[]).map(drop)
    }
}

fn wait_on(other: &Scheduler, point: StreamPoint, card_wait: CardWait, completion: Completion) {
    card_wait.begin(completion);
    other.wake_when_reached(point, card_wait);
}
