mod script;
mod short_copy;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::{
    BlockKind, Completions, ControlBlock, Description, DeviceHandle, DeviceMemory, DeviceRange,
    EngineIndex, Fault, Hardware, MemoryMode, Outcome, PeerMemory, Regions, Severity, Started,
    Token,
};
use script::Script;
pub use script::{Behaviour, Trigger};

/// A card with memory that does what it should, except where a test has written otherwise.
///
/// Blocks are done at once. Its programs do nothing: they are [`ScriptedCard::PROGRAM`].
///
/// ```
/// use std::sync::Arc;
/// use spyre_hal::{Behaviour, BlockKind, Fault, MemoryMode, ScriptedCard, Trigger};
///
/// let card = Arc::new(ScriptedCard::new(MemoryMode::Vf).with_engines(4));
/// card.script(Trigger::Nth(3), Behaviour::Hang);
/// let why = "a bad cable".into();
/// card.script(Trigger::Next(BlockKind::CopyPeer), Behaviour::Fault(Fault::CopyFailed { why }));
/// assert!(card.log().is_empty());
/// ```
#[derive(Debug)]
pub struct ScriptedCard {
    memory: DeviceMemory,
    engines: u16,
    state: Mutex<State>,
    /// Notified when a block no longer touches memory.
    is_idle: Condvar,
}

/// A block that a [`ScriptedCard`] was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartedBlock {
    /// The engine it was started on.
    pub engine: EngineIndex,
    /// Token that it was started with.
    pub token: Token,
    /// Kind of the block.
    pub kind: BlockKind,
}

#[derive(Debug, Default)]
struct State {
    completions: Option<Arc<dyn Completions>>,
    script: Script,
    log: Vec<StartedBlock>,
    hanging: Vec<Hanging>,
    lost: Option<Fault>,
    /// Blocks that are being carried out, on whichever threads.
    running: usize,
}

/// A block that never ends by itself. Until it does end, what it holds of the host stays lent.
#[derive(Debug)]
struct Hanging {
    engine: EngineIndex,
    token: Token,
    block: ControlBlock,
    ignores_abort: bool,
}

/// Decision on a block that was started.
enum ScriptedOutcome {
    Hangs,
    /// The card was lost before. It may have been reset since: this fault is not to lose it again.
    IsLost(Fault),
    Ends(ControlBlock, Fault),
    Shortens(ControlBlock),
    Runs(ControlBlock),
}

impl ScriptedCard {
    /// Content of its programs, which only start and end.
    pub const PROGRAM: [u8; 16] = *b"scripted program";

    /// One engine; 8 regions of up to 12 GB, or 1024 of them in PF mode, where each allocation
    /// is one.
    pub fn new(mode: MemoryMode) -> Self {
        let regions = match mode {
            MemoryMode::Pf => 1024,
            MemoryMode::Vf => 8,
        };
        Self {
            memory: DeviceMemory::new(mode, regions, 12 << 30),
            engines: 1,
            state: Mutex::default(),
            is_idle: Condvar::new(),
        }
    }

    /// Sets the number of engines.
    #[must_use]
    pub fn with_engines(self, engines: u16) -> Self {
        Self { engines: engines.max(1), ..self }
    }

    /// Replaces the memory.
    #[must_use]
    pub fn with_memory(self, memory: DeviceMemory) -> Self {
        Self { memory, ..self }
    }

    /// Its memory.
    pub fn memory(&self) -> &DeviceMemory {
        &self.memory
    }

    /// Makes the block that the trigger fits behave so, from now on. Where several fit, the first
    /// that was given counts. A lost device follows no script; a reset keeps it.
    pub fn script(&self, trigger: Trigger, behaviour: Behaviour) {
        self.state.lock().script.add(trigger, behaviour);
    }

    /// Forgets all that was scripted. What hangs goes on hanging.
    pub fn clear_script(&self) {
        self.state.lock().script.clear();
    }

    /// Every block that was started, in the order of the starts.
    pub fn log(&self) -> Vec<StartedBlock> {
        self.state.lock().log.clone()
    }

    /// Engines that hang.
    pub fn hanging(&self) -> Vec<EngineIndex> {
        self.state.lock().hanging.iter().map(|hanging| hanging.engine).collect()
    }

    fn turn(&self, engine: EngineIndex, token: Token, block: ControlBlock) -> ScriptedOutcome {
        let mut state = self.state.lock();
        state.log.push(StartedBlock { engine, token, kind: block.kind() });
        if let Some(fault) = state.lost.clone() {
            return ScriptedOutcome::IsLost(fault);
        }
        let behaviour = state.script.follow(&block);
        let ignores_abort = behaviour == Some(Behaviour::HangForever);
        match behaviour {
            Some(Behaviour::Hang | Behaviour::HangForever) => {
                state.hanging.push(Hanging { engine, token, block, ignores_abort });
                return ScriptedOutcome::Hangs;
            }
            Some(Behaviour::Fault(fault)) => return ScriptedOutcome::Ends(block, fault),
            Some(Behaviour::Lose) => {
                return ScriptedOutcome::Ends(block, lost("as the script says"));
            }
            _ => state.running += 1,
        }
        match behaviour {
            None => ScriptedOutcome::Runs(block),
            Some(_) => ScriptedOutcome::Shortens(block),
        }
    }

    /// Runs something that touches memory, which a reset waits for.
    fn run(&self, act: impl FnOnce() -> Outcome) -> Started {
        let outcome = act();
        self.state.lock().running -= 1;
        self.is_idle.notify_all();
        Started::Done(outcome)
    }

    fn end(&self, block: ControlBlock, fault: Fault) -> Started {
        drop(block);
        if fault.severity() == Severity::Lost {
            self.lose(&fault);
        }
        Started::Done(Err(fault))
    }

    /// Ends all that hangs, and whatever is started from now on.
    fn lose(&self, fault: &Fault) {
        let mut state = self.state.lock();
        state.lost.get_or_insert_with(|| fault.clone());
        let hanging = std::mem::take(&mut state.hanging);
        drop(state);
        hanging.into_iter().for_each(|hanging| self.report(hanging, fault.clone()));
    }

    fn report(&self, hanging: Hanging, fault: Fault) {
        let Hanging { engine, token, block, .. } = hanging;
        drop(block);
        let completions = self.state.lock().completions.clone();
        if let Some(completions) = completions {
            completions.complete(engine, token, Err(fault));
        }
    }

    fn perform(&self, block: ControlBlock) -> Outcome {
        match block {
            ControlBlock::Launch { program, .. } => self.launch(program),
            block => self.memory.carry_out(block),
        }
    }

    fn launch(&self, program: DeviceHandle) -> Outcome {
        let length = Self::PROGRAM.len() as u64;
        let bytes = self.memory.bytes(DeviceRange::start_of(program, length))?;
        if bytes == Self::PROGRAM {
            return Ok(());
        }
        let why = format!("it starts with {bytes:02x?}");
        Err(Fault::BadProgram { program, why: why.into() })
    }
}

impl Regions for ScriptedCard {
    crate::forward_regions!(|self| self.memory);
}

impl Hardware for ScriptedCard {
    fn description(&self) -> Description {
        Description { name: "scripted".to_owned(), engines: self.engines, is_prompt: true }
    }

    fn connect(&self, completions: Arc<dyn Completions>) {
        let previous = self.state.lock().completions.replace(completions);
        drop(previous);
    }

    fn start(&self, engine: EngineIndex, token: Token, block: ControlBlock) -> Started {
        match self.turn(engine, token, block) {
            ScriptedOutcome::Hangs => Started::Later,
            ScriptedOutcome::IsLost(fault) => Started::Done(Err(fault)),
            ScriptedOutcome::Ends(block, fault) => self.end(block, fault),
            ScriptedOutcome::Shortens(block) => {
                self.run(|| short_copy::carry_out(&self.memory, block))
            }
            ScriptedOutcome::Runs(block) => self.run(|| self.perform(block)),
        }
    }

    fn abort(&self, engine: EngineIndex, token: Token) {
        let mut state = self.state.lock();
        let is_its = |hanging: &Hanging| {
            (hanging.engine, hanging.token) == (engine, token) && !hanging.ignores_abort
        };
        let ended = state.hanging.iter().position(is_its).map(|at| state.hanging.remove(at));
        drop(state);
        if let Some(hanging) = ended {
            self.report(hanging, Fault::Hung { milliseconds: 0 });
        }
    }

    /// Lost until it is over: whatever is started meanwhile does not reach the new memory.
    fn reset(&self) {
        self.lose(&lost("it is being reset"));
        let mut state = self.state.lock();
        self.is_idle.wait_while(&mut state, |state| state.running > 0);
        self.memory.release_all();
        state.lost = None;
    }
}

impl PeerMemory for ScriptedCard {
    fn accept(&self, target: DeviceRange, bytes: &[u8]) -> Outcome {
        let lost = self.state.lock().lost.clone();
        match lost {
            Some(fault) => Err(fault),
            None => self.memory.write(target, bytes),
        }
    }
}

fn lost(why: &str) -> Fault {
    Fault::DeviceLost { why: why.into() }
}
