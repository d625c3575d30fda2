use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};
use spyre_hal::{EngineIndex, Fault, Outcome, Severity, Token};

/// Engines of a card: the blocks that are under way, and the flags that end them.
#[derive(Debug)]
pub(crate) struct Engines {
    engines: Vec<Engine>,
    state: Mutex<State>,
    /// Notified when a turn has ended.
    has_ended: Condvar,
    /// One reset at a time: a second one would otherwise wait for blocks of the next life.
    resetting: Mutex<()>,
}

#[derive(Debug, Default)]
struct Engine {
    /// Raised when its block is to end.
    is_to_end: AtomicBool,
    /// Modelled nanoseconds of the last block on a real card.
    modelled_nanoseconds: AtomicU64,
}

#[derive(Debug)]
struct State {
    lost: Option<Fault>,
    /// The block that each engine has.
    blocks: Vec<Option<Token>>,
    /// Blocks, and bytes from other cards, that are under way.
    turns: usize,
}

/// The right to touch device memory: a reset waits for its end.
#[derive(Debug)]
pub(crate) struct EngineTurn<'a> {
    engines: &'a Engines,
    /// None for bytes from another card.
    engine: Option<EngineIndex>,
    is_over: bool,
}

impl Engines {
    pub(crate) fn new(engines: u16) -> Self {
        let engines = usize::from(engines.max(1));
        let state = State { lost: None, blocks: vec![None; engines], turns: 0 };
        Self {
            engines: (0..engines).map(|_| Engine::default()).collect(),
            state: Mutex::new(state),
            has_ended: Condvar::new(),
            resetting: Mutex::default(),
        }
    }

    pub(crate) fn count(&self) -> u16 {
        self.engines.len() as u16
    }

    pub(crate) fn modelled_nanoseconds(&self, EngineIndex(engine): EngineIndex) -> u64 {
        let engine = self.engines.get(usize::from(engine));
        engine.map_or(0, |engine| engine.modelled_nanoseconds.load(Ordering::Relaxed))
    }

    /// Begins a turn, unless the card is lost.
    pub(crate) fn enter(
        &self,
        block: Option<(EngineIndex, Token)>,
    ) -> Result<EngineTurn<'_>, Fault> {
        let mut state = self.state.lock();
        if let Some(fault) = &state.lost {
            return Err(fault.clone());
        }
        let engine = block.map(|(engine, _)| engine);
        if let Some((EngineIndex(engine), token)) = block {
            let before = state.blocks[usize::from(engine)].replace(token);
            debug_assert!(before.is_none(), "engine {engine} is busy");
            self.engines[usize::from(engine)].is_to_end.store(false, Ordering::Relaxed);
        }
        state.turns += 1;
        Ok(EngineTurn { engines: self, engine, is_over: false })
    }

    /// Has a block end, if the engine has just that one.
    pub(crate) fn abort(&self, engine: EngineIndex, token: Token) {
        let at = usize::from(engine.0);
        let state = self.state.lock();
        if state.blocks.get(at) == Some(&Some(token)) {
            self.engines[at].is_to_end.store(true, Ordering::Relaxed);
        }
    }

    /// Loses the card: until a reset, every block ends with the first fault that was given.
    pub(crate) fn lose(&self, fault: Fault) {
        self.lose_locked(&mut self.state.lock(), fault);
    }

    /// Ends every turn, has `act` done while there is none, and goes on as new.
    pub(crate) fn reset(&self, act: impl FnOnce()) {
        let _resetting = self.resetting.lock();
        let mut state = self.state.lock();
        self.lose_locked(&mut state, Fault::DeviceLost { why: "it is being reset".into() });
        self.has_ended.wait_while(&mut state, |state| state.turns > 0);
        act();
        state.lost = None;
    }

    fn lose_locked(&self, state: &mut State, fault: Fault) {
        state.lost.get_or_insert(fault);
        for engine in &self.engines {
            engine.is_to_end.store(true, Ordering::Relaxed);
        }
    }
}

impl EngineTurn<'_> {
    /// Returns true if the block is to end: it was aborted, or the card is lost.
    pub(crate) fn is_to_end(&self) -> bool {
        let Some(EngineIndex(engine)) = self.engine else { return false };
        self.engines.engines[usize::from(engine)].is_to_end.load(Ordering::Relaxed)
    }

    /// Fault of a block that is ended before its own end. If the card was lost, `leave` reports that instead.
    /// The caller that started the block knows how long ago that was.
    pub(crate) fn cut_short(&self) -> Fault {
        Fault::Hung { milliseconds: 0 }
    }

    /// Notes what its block would have taken on a real card.
    pub(crate) fn note_modelled(&self, nanoseconds: u64) {
        let Some(EngineIndex(engine)) = self.engine else { return };
        let engine = &self.engines.engines[usize::from(engine)];
        engine.modelled_nanoseconds.store(nanoseconds, Ordering::Relaxed);
    }

    /// Ends it. A block that comes to its end on a lost card is lost with it.
    pub(crate) fn leave(mut self, outcome: Outcome) -> Outcome {
        self.close(outcome)
    }

    fn close(&mut self, outcome: Outcome) -> Outcome {
        self.is_over = true;
        let mut state = self.engines.state.lock();
        if let Err(fault) = &outcome
            && fault.severity() == Severity::Lost
        {
            self.engines.lose_locked(&mut state, fault.clone());
        }
        if let Some(EngineIndex(engine)) = self.engine {
            state.blocks[usize::from(engine)] = None;
        }
        state.turns -= 1;
        let lost = state.lost.clone();
        let is_last = state.turns == 0;
        drop(state);
        if is_last {
            self.engines.has_ended.notify_all();
        }
        lost.map_or(outcome, Err)
    }
}

impl Drop for EngineTurn<'_> {
    /// The block's code panicked.
    fn drop(&mut self) {
        if !self.is_over {
            drop(self.close(Ok(())));
        }
    }
}
