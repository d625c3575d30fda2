use std::sync::{Arc, Mutex};

use shuttle::sync::atomic::{AtomicBool, Ordering};
use spyre_hal::{
    Completions, ControlBlock, Description, DeviceRange, EngineIndex, Hardware, Outcome,
    PeerMemory, Regions, Started, Token,
};

/// A card that notes the order of its fills. It is wrong if an engine gets two blocks at once, or
/// any block once the scenario has said that there are to be none.
#[derive(Debug)]
pub(crate) struct OrderCard<H> {
    hardware: H,
    is_busy: Vec<AtomicBool>,
    is_over: AtomicBool,
    fills: Mutex<Vec<u8>>,
    /// Reported when it is dropped: the runtime takes a panic in `start` for a lost device.
    wrongs: Mutex<Vec<String>>,
}

impl<H: Hardware> OrderCard<H> {
    pub(crate) fn new(hardware: H) -> Self {
        let engines = hardware.description().engines;
        let is_busy = (0..engines).map(|_| AtomicBool::new(false)).collect();
        Self {
            hardware,
            is_busy,
            is_over: AtomicBool::new(false),
            fills: Mutex::default(),
            wrongs: Mutex::default(),
        }
    }

    pub(crate) fn inner(&self) -> &H {
        &self.hardware
    }

    /// The first byte of every fill that was started, in order.
    pub(crate) fn fills(&self) -> Vec<u8> {
        self.fills.lock().expect("no thread panics with it").clone()
    }

    fn note_wrong(&self, wrong: String) {
        self.wrongs.lock().expect("no thread panics with it").push(wrong);
    }

    /// Ends the run: a block that is started from now on is an error.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

impl<H> Drop for OrderCard<H> {
    fn drop(&mut self) {
        let wrongs = self.wrongs.get_mut().expect("no thread panics with it");
        assert!(wrongs.is_empty() || std::thread::panicking(), "{wrongs:?}");
    }
}

impl<H: Hardware> Regions for OrderCard<H> {
    spyre_hal::forward_regions!(|self| self.hardware);
}

impl<H: Hardware> Hardware for OrderCard<H> {
    fn description(&self) -> Description {
        self.hardware.description()
    }

    fn connect(&self, completions: Arc<dyn Completions>) {
        self.hardware.connect(completions);
    }

    fn start(&self, engine: EngineIndex, token: Token, block: ControlBlock) -> Started {
        let is_busy = &self.is_busy[usize::from(engine.0)];
        if is_busy.swap(true, Ordering::SeqCst) {
            self.note_wrong(format!("{engine:?} got two blocks at once"));
        }
        if self.is_over.load(Ordering::SeqCst) {
            self.note_wrong(format!("{block:?} was started after the end"));
        }
        if let ControlBlock::Fill { pattern, .. } = &block {
            self.fills.lock().expect("no thread panics with it").push(pattern.bytes()[0]);
        }
        let started = self.hardware.start(engine, token, block);
        is_busy.store(false, Ordering::SeqCst);
        started
    }

    fn abort(&self, engine: EngineIndex, token: Token) {
        self.hardware.abort(engine, token);
    }

    fn reset(&self) {
        self.hardware.reset();
    }
}

impl<H: Hardware> PeerMemory for OrderCard<H> {
    fn accept(&self, target: DeviceRange, bytes: &[u8]) -> Outcome {
        self.hardware.accept(target, bytes)
    }
}
