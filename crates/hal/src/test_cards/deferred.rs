#[cfg(test)]
mod gated_tests;
mod lanes;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use crate::{
    Completions, ControlBlock, Description, DeviceRange, EngineIndex, Fault, Hardware, Outcome,
    PeerMemory, Regions, Started, Token,
};
use lanes::{Found, Lanes, Waiting};

/// A hardware whose blocks wait until its owner says which is next.
///
/// It has no thread: a simulator that wants every order of completions calls
/// [`finish`](Self::finish) itself, and [`LateCard`](crate::LateCard) does so on a thread of its own.
///
/// ```
/// use spyre_hal::{DeferredCard, NullCard};
///
/// let card = DeferredCard::new(NullCard::with_engines(4));
/// assert_eq!(card.pending(), 0);
/// assert!(!card.finish(3)); // nothing waits
/// ```
#[derive(Debug)]
pub struct DeferredCard<H: Hardware> {
    hardware: H,
    lanes: Arc<Lanes>,
    description: Description,
    is_inner_prompt: bool,
}

/// Time to wait for a call into the hardware before asking it again to end.
const PATIENCE: Duration = Duration::from_millis(10);

impl<H: Hardware> DeferredCard<H> {
    /// Blocks wait before they reach this hardware.
    pub fn new(hardware: H) -> Self {
        let inner = hardware.description();
        let is_inner_prompt = inner.is_prompt;
        let name = format!("deferred {}", inner.name);
        let lanes = Arc::new(Lanes::new(inner.engines));
        let description = Description { name, is_prompt: true, ..inner };
        Self { hardware, lanes, description, is_inner_prompt }
    }

    /// The hardware that carries the blocks out.
    pub fn inner(&self) -> &H {
        &self.hardware
    }

    /// Number of blocks that wait to be carried out. Those that hang in the hardware do not count.
    pub fn pending(&self) -> usize {
        self.lanes.waiting()
    }

    /// Carries out one of the blocks that wait, counted in the order of their engines modulo their
    /// number, and reports it if it is done. False if none waits.
    pub fn finish(&self, pick: usize) -> bool {
        let _call = self.lanes.call();
        let Some(Waiting { engine, token, block }) = self.lanes.take(pick) else { return false };
        match self.hardware.start(engine, token, block) {
            Started::Done(outcome) => self.lanes.report(engine, token, outcome),
            Started::Later if self.lanes.leave(engine, token) => {
                self.hardware.abort(engine, token);
            }
            Started::Later => {}
        }
        true
    }

    /// Waits until a block does. False once there will be none.
    pub(crate) fn wait_for_work(&self) -> bool {
        self.lanes.wait_for_work()
    }

    /// Ends everything, and notifies threads that wait for work that there is none.
    pub(crate) fn close(&self) {
        self.lanes.close();
        self.reset();
    }

    pub(crate) fn is_inner_prompt(&self) -> bool {
        self.is_inner_prompt
    }

    fn end(&self, waiting: Waiting, fault: Fault) {
        let Waiting { engine, token, block } = waiting;
        drop(block);
        self.lanes.report(engine, token, Err(fault));
    }

    /// Aborts a block inside `start`, where a hardware that is not prompt carries it out. An abort that
    /// comes just before does nothing, so it is repeated.
    fn abort_inside(&self, engine: EngineIndex, token: Token) {
        self.hardware.abort(engine, token);
        while !self.lanes.has_left_within(engine, token, PATIENCE) {
            self.hardware.abort(engine, token);
        }
    }
}

impl<H: Hardware> Regions for DeferredCard<H> {
    crate::forward_regions!(|self| self.hardware);
}

impl<H: Hardware> Hardware for DeferredCard<H> {
    fn description(&self) -> Description {
        self.description.clone()
    }

    fn connect(&self, completions: Arc<dyn Completions>) {
        self.lanes.connect(completions);
        self.hardware.connect(Arc::new(Forward(self.lanes.clone())));
    }

    fn start(&self, engine: EngineIndex, token: Token, block: ControlBlock) -> Started {
        match self.lanes.put(Waiting { engine, token, block }) {
            Ok(()) => Started::Later,
            Err(block) => {
                drop(block);
                Started::Done(Err(lost()))
            }
        }
    }

    fn abort(&self, engine: EngineIndex, token: Token) {
        let _call = self.lanes.call();
        match self.lanes.abort(engine, token) {
            Found::Waiting(waiting) => self.end(waiting, Fault::Hung { milliseconds: 0 }),
            Found::Starting if !self.is_inner_prompt => self.abort_inside(engine, token),
            // It is noted, and `finish` passes it on as soon as the hardware has the block.
            Found::Starting => {}
            Found::Nothing => self.hardware.abort(engine, token),
        }
    }

    /// A start that was under way when the hardware was reset may have come after it: so the last
    /// reset comes when no thread is inside any more. What hangs inside ends only by a reset.
    fn reset(&self) {
        let waiting = self.lanes.begin_reset();
        waiting.into_iter().for_each(|waiting| self.end(waiting, lost()));
        while !self.lanes.is_quiet_within(PATIENCE) {
            self.hardware.reset();
        }
        self.hardware.reset();
        self.lanes.end_reset();
    }

    fn modelled_nanoseconds(&self, engine: EngineIndex) -> u64 {
        self.hardware.modelled_nanoseconds(engine)
    }
}

impl<H: Hardware> PeerMemory for DeferredCard<H> {
    fn accept(&self, target: DeviceRange, bytes: &[u8]) -> Outcome {
        self.hardware.accept(target, bytes)
    }
}

impl<H: Hardware> Drop for DeferredCard<H> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Passes on what the hardware itself reports later.
#[derive(Debug)]
struct Forward(Arc<Lanes>);

impl Completions for Forward {
    fn complete(&self, engine: EngineIndex, token: Token, outcome: Outcome) {
        self.0.report(engine, token, outcome);
    }
}

fn lost() -> Fault {
    Fault::DeviceLost { why: "it is being reset".into() }
}
