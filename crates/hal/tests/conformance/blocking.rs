use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use spyre_hal::{
    Completions, ControlBlock, Description, DeviceRange, EngineIndex, Hardware, Outcome,
    PeerMemory, Regions, ScriptedCard, Started, Token,
};

/// A card that is not prompt: `start` returns when the block has ended, also when it hangs.
#[derive(Debug)]
pub(crate) struct Blocking {
    card: ScriptedCard,
    ends: Arc<Ends>,
}

#[derive(Debug, Default)]
struct Ends {
    outcomes: Mutex<HashMap<Token, Outcome>>,
    changed: Condvar,
}

impl Blocking {
    pub(crate) fn new(card: ScriptedCard) -> Self {
        let ends = Arc::new(Ends::default());
        card.connect(ends.clone());
        Self { card, ends }
    }

    pub(crate) fn inner(&self) -> &ScriptedCard {
        &self.card
    }
}

impl Ends {
    fn wait(&self, token: Token) -> Outcome {
        let mut outcomes = self.outcomes.lock();
        loop {
            if let Some(outcome) = outcomes.remove(&token) {
                return outcome;
            }
            self.changed.wait(&mut outcomes);
        }
    }
}

impl Completions for Ends {
    fn complete(&self, _: EngineIndex, token: Token, outcome: Outcome) {
        self.outcomes.lock().insert(token, outcome);
        self.changed.notify_all();
    }
}

impl Regions for Blocking {
    spyre_hal::forward_regions!(|self| self.card);
}

impl Hardware for Blocking {
    fn description(&self) -> Description {
        Description { is_prompt: false, ..self.card.description() }
    }

    fn connect(&self, _: Arc<dyn Completions>) {}

    fn start(&self, engine: EngineIndex, token: Token, block: ControlBlock) -> Started {
        match self.card.start(engine, token, block) {
            Started::Later => Started::Done(self.ends.wait(token)),
            done => done,
        }
    }

    fn abort(&self, engine: EngineIndex, token: Token) {
        self.card.abort(engine, token);
    }

    fn reset(&self) {
        self.card.reset();
    }
}

impl PeerMemory for Blocking {
    fn accept(&self, target: DeviceRange, bytes: &[u8]) -> Outcome {
        self.card.accept(target, bytes)
    }
}
