use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use spyre_layout::DmaNest;

use super::recorder::{Recorder, Report};
use super::{Ending, FIRST, Subject};
use crate::{
    Completions, ControlBlock, CopyDevice, CopyFromDevice, CopyToDevice, DeviceHandle, DeviceRange,
    EngineIndex, HandleTag, Hardware, HostBuffer, Label, MemoryMode, Outcome, PFDeviceHandle,
    Pattern, Region, Started, Token, VFDeviceHandle,
};

/// Drives a hardware as the runtime does: one block at a time on each engine.
pub struct Driver<'a> {
    open: &'a dyn Fn() -> Subject,
    subject: Rc<Subject>,
    recorder: Arc<Recorder>,
    started: RefCell<Vec<(EngineIndex, Token)>>,
}

impl<'a> Driver<'a> {
    pub(super) fn new(open: &'a dyn Fn() -> Subject) -> Self {
        Self::connect(open, Rc::new(open()))
    }

    fn connect(open: &'a dyn Fn() -> Subject, subject: Rc<Subject>) -> Self {
        let recorder = Arc::new(Recorder::default());
        subject.hardware().connect(recorder.clone());
        Self { open, subject, recorder, started: RefCell::default() }
    }

    /// Another runtime for the same card: this one gets no more reports.
    pub(super) fn take_over(&self) -> Self {
        Self::connect(self.open, self.subject.clone())
    }

    /// A second card of the same make.
    pub(super) fn another(&self) -> Self {
        Self::new(self.open)
    }

    pub(super) fn subject(&self) -> &Subject {
        &self.subject
    }

    pub(super) fn hardware(&self) -> &Arc<dyn Hardware> {
        self.subject.hardware()
    }

    pub(super) fn engines(&self) -> impl Iterator<Item = EngineIndex> + Clone + use<> {
        (0..self.hardware().description().engines).map(EngineIndex)
    }

    pub(super) fn watch(&self, buffer: &HostBuffer) {
        self.recorder.watch(buffer);
    }

    pub(super) fn region(&self, bytes: u64) -> Region {
        let region = self.hardware().try_allocate(bytes);
        region.unwrap_or_else(|| panic!("there is no region of {bytes} bytes"))
    }

    /// A handle to a place in a region. One that is made after another block differs, as that of
    /// another allocation would.
    pub(super) fn handle(&self, region: Region, offset: u64) -> DeviceHandle {
        let generation = self.started.borrow().len() as u32;
        let tag = HandleTag { epoch: 1, generation, slot: offset as u32 };
        let pf = PFDeviceHandle { physical_address: region.base_address + offset };
        let vf = VFDeviceHandle { region_id: region.id.0, vf_offset: offset };
        match self.hardware().mode() {
            MemoryMode::Pf => DeviceHandle::pf(pf, tag),
            MemoryMode::Vf => DeviceHandle::vf(vf, tag),
        }
    }

    /// Some bytes of a region, by a handle to its start.
    pub(super) fn range(&self, region: Region, offset: u64, bytes: u64) -> DeviceRange {
        DeviceRange { handle: self.handle(region, 0), offset, bytes }
    }

    /// Starts a block. A hardware that is not prompt is given a thread to do it on.
    pub(super) fn start(&self, engine: EngineIndex, block: ControlBlock) -> Token {
        let (token, start) = self.starter(engine, block);
        if self.hardware().description().is_prompt {
            start();
        } else {
            thread::spawn(start);
        }
        token
    }

    /// Starts a block where `start` must not wait. If it does, this fails and does not wait too.
    pub(super) fn start_promptly(&self, engine: EngineIndex, block: ControlBlock) -> Token {
        let (token, start) = self.starter(engine, block);
        let returned = Arc::new(Recorder::default());
        let returns = returned.clone();
        thread::spawn(move || {
            start();
            returns.complete(engine, token, Ok(()));
        });
        returned.wait(token);
        token
    }

    fn starter(
        &self,
        engine: EngineIndex,
        block: ControlBlock,
    ) -> (Token, impl FnOnce() + Send + 'static) {
        let token = Token(self.started.borrow().len() as u64);
        self.started.borrow_mut().push((engine, token));
        let hardware = self.hardware().clone();
        let recorder = self.recorder.clone();
        let start = move || {
            if let Started::Done(outcome) = hardware.start(engine, token, block) {
                recorder.complete(engine, token, outcome);
            }
        };
        (token, start)
    }

    pub(super) fn wait(&self, token: Token) -> Outcome {
        self.recorder.wait(token).outcome
    }

    pub(super) fn report(&self, token: Token) -> Report {
        self.recorder.wait(token)
    }

    pub(super) fn is_reported(&self, token: Token) -> bool {
        !self.recorder.reports(token).is_empty()
    }

    /// Starts a block and waits for its end.
    pub(super) fn run(&self, engine: EngineIndex, block: ControlBlock) -> Outcome {
        let token = self.start(engine, block);
        self.wait(token)
    }

    /// Aborts a block that hangs and waits for its end. Where `start` waits, an abort may come
    /// before the block has begun, and is repeated.
    pub(super) fn abort(&self, engine: EngineIndex, token: Token) -> Outcome {
        self.hardware().abort(engine, token);
        while !self.hardware().description().is_prompt && !self.is_reported(token) {
            thread::yield_now();
            self.hardware().abort(engine, token);
        }
        self.wait(token)
    }

    /// Every block that was started has been reported once, and for its engine.
    pub(super) fn settle(&self) {
        for &(engine, token) in &*self.started.borrow() {
            self.recorder.wait(token);
            let reports = self.recorder.reports(token);
            assert_eq!(reports.len(), 1, "block {} was reported more than once", token.0);
            assert_eq!(reports[0].engine, engine, "the engine of block {}", token.0);
        }
    }

    pub(super) fn upload(&self, target: DeviceRange, bytes: &[u8]) {
        let outcome = self.run(FIRST, to_device(bytes.to_vec(), target, None));
        assert_eq!(outcome, Ok(()), "a copy of {} bytes to {target}", bytes.len());
    }

    pub(super) fn download(&self, source: DeviceRange) -> Vec<u8> {
        let host = HostBuffer::zeroed(source.bytes as usize);
        let outcome = self.run(FIRST, from_device(source, &host, None));
        assert_eq!(outcome, Ok(()), "a copy from {source}");
        host.read().expect("the copy has ended").to_vec()
    }

    /// Puts a program into an allocation for programs.
    pub(super) fn program(&self, ending: Ending, region: Region, offset: u64) -> DeviceHandle {
        let handle = self.handle(region, offset);
        let bytes = self.subject.program(ending, handle);
        self.hardware().protect(region.id, offset, (bytes.len() as u64).next_multiple_of(128));
        self.upload(DeviceRange::start_of(handle, bytes.len() as u64), &bytes);
        handle
    }
}

impl fmt::Debug for Driver<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("subject", &self.subject).finish_non_exhaustive()
    }
}

pub(super) fn to_device(
    source: Vec<u8>,
    target: DeviceRange,
    nest: Option<Arc<DmaNest>>,
) -> ControlBlock {
    ControlBlock::CopyToDevice(Box::new(CopyToDevice { source: source.into(), target, nest }))
}

pub(super) fn from_device(
    source: DeviceRange,
    target: &HostBuffer,
    nest: Option<Arc<DmaNest>>,
) -> ControlBlock {
    let target = target.lend_to_write().expect("the buffer is not lent");
    ControlBlock::CopyFromDevice(Box::new(CopyFromDevice { source, target, nest }))
}

pub(super) fn on_device(
    source: DeviceRange,
    target: DeviceRange,
    nest: Option<Arc<DmaNest>>,
) -> ControlBlock {
    ControlBlock::CopyDevice(Box::new(CopyDevice { source, target, nest }))
}

pub(super) fn fill(pattern: &[u8], target: DeviceRange) -> ControlBlock {
    let pattern = Pattern::new(pattern).expect("one to four bytes");
    ControlBlock::Fill { pattern, target }
}

pub(super) fn launch(program: DeviceHandle) -> ControlBlock {
    ControlBlock::launch(program, Label::default())
}

/// Like `assert_eq`, but names the first byte that differs instead of printing all.
#[track_caller]
pub(super) fn assert_bytes(found: &[u8], expected: &[u8], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: bytes");
    if let Some(at) = found.iter().zip(expected).position(|(found, expected)| found != expected) {
        panic!("{what}: byte {at} is {:#04x}, not {:#04x}", found[at], expected[at]);
    }
}
