//! Aborts and resets while a start is under way, held there by a gate.

use std::thread;

use parking_lot::{Condvar, Mutex};

use super::tests::{Reports, is_lost, start};
use super::*;
use crate::{Behaviour, MemoryMode, ScriptedCard, Trigger};

/// A card on whose way in is a gate. It says that it is prompt: the gate is the scheduler's whim.
#[derive(Debug)]
struct Gated {
    card: ScriptedCard,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Gate {
    is_reached: bool,
    is_open: bool,
}

impl Gated {
    fn hanging() -> Self {
        let card = ScriptedCard::new(MemoryMode::Pf);
        card.script(Trigger::Nth(1), Behaviour::Hang);
        Self { card, gate: Mutex::default(), changed: Condvar::new() }
    }

    fn wait_until_reached(&self) {
        self.changed.wait_while(&mut self.gate.lock(), |gate| !gate.is_reached);
    }

    fn open(&self) {
        self.gate.lock().is_open = true;
        self.changed.notify_all();
    }
}

impl Regions for Gated {
    crate::forward_regions!(|self| self.card);
}

impl Hardware for Gated {
    fn description(&self) -> Description {
        self.card.description()
    }

    fn connect(&self, completions: Arc<dyn Completions>) {
        self.card.connect(completions);
    }

    fn start(&self, engine: EngineIndex, token: Token, block: ControlBlock) -> Started {
        let mut gate = self.gate.lock();
        gate.is_reached = true;
        self.changed.notify_all();
        self.changed.wait_while(&mut gate, |gate| !gate.is_open);
        drop(gate);
        self.card.start(engine, token, block)
    }

    fn abort(&self, engine: EngineIndex, token: Token) {
        self.card.abort(engine, token);
    }

    /// The gate opens after it: what waited there comes into the card's new life.
    fn reset(&self) {
        self.card.reset();
        self.open();
    }
}

impl PeerMemory for Gated {
    fn accept(&self, target: DeviceRange, bytes: &[u8]) -> Outcome {
        self.card.accept(target, bytes)
    }
}

fn gated() -> (DeferredCard<Gated>, Arc<Reports>) {
    let card = DeferredCard::new(Gated::hanging());
    let reports = Arc::new(Reports::default());
    card.connect(reports.clone());
    assert_eq!(start(&card, 0, 9), Started::Later);
    (card, reports)
}

#[test]
fn an_abort_of_a_block_on_its_way_in_ends_it_there() {
    let (card, reports) = gated();
    thread::scope(|scope| {
        scope.spawn(|| card.finish(0));
        card.inner().wait_until_reached();
        card.abort(EngineIndex(0), Token(9));
        assert!(reports.tokens().is_empty());
        card.inner().open();
    });
    assert_eq!(*reports.seen.lock(), [(0, 9, Err(Fault::Hung { milliseconds: 0 }))]);
}

#[test]
fn a_reset_waits_for_a_block_on_its_way_in_and_ends_it() {
    let (card, reports) = gated();
    thread::scope(|scope| {
        scope.spawn(|| card.finish(0));
        card.inner().wait_until_reached();
        card.reset();
        assert_eq!(reports.tokens(), [9]);
    });
    assert!(is_lost(&reports.seen.lock()[0].2));
    assert!(card.inner().card.hanging().is_empty());
}
