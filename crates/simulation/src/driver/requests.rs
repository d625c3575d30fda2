//! Blocks: each as the runtime gets it, and as the oracle does.

use std::panic::resume_unwind;
use std::sync::Arc;

use spyre_flex::{ControlBlockStream, Error, FlexStream};
use spyre_hal::{
    BlockKind, ControlBlock, CopyDevice, CopyFromDevice, CopyToDevice, DeviceRange, ExternalWork,
    HostBuffer, HostCallback, Label, Pattern, StreamIndex, StreamPoint,
};

use super::{Checked, Composed, Driver, TICKETS, broken, unexpected};
use crate::fault_plan::is_due;
use crate::identity::identity;
use crate::log::Step;
use crate::oracle::{Block, Effect, Span, payload};
use crate::settings::Sabotage;
use crate::violation::Promise;
use crate::world::{Callback, World};

/// Composed lists that are kept.
const COMPOSED: usize = 4;

/// A block, twice.
pub(super) struct Request {
    pub(super) block: ControlBlock,
    pub(super) model: Block,
}

impl Request {
    fn new(block: ControlBlock, effect: Effect) -> Self {
        let mut model = Block::new(block.kind(), Some(identity(&block)), effect);
        model.label = block.label();
        Self { block, model }
    }

    fn invisible(block: ControlBlock, effect: Effect) -> Self {
        let model = Block::new(block.kind(), None, effect);
        Self { block, model }
    }
}

impl Driver {
    pub(super) fn submit_one(&mut self) -> Checked {
        let at = self.stream_at();
        match self.request(at, false) {
            Some(request) => self.submit(at, vec![request]).map(drop),
            None => self.allocate(),
        }
    }

    pub(super) fn submit_batch(&mut self) -> Checked {
        let at = self.stream_at();
        let most = self.world.settings.queue_bound.min(6);
        let count = 1 + self.random.below(most);
        let mut requests: Vec<Request> = (0..count).filter_map(|_| self.any_request(at)).collect();
        if requests.is_empty() {
            return Ok(());
        }
        if self.world.settings.sabotage == Some(Sabotage::SwapOrder) && requests.len() > 1 {
            let [first, .., last] = &mut requests[..] else { return Ok(()) };
            std::mem::swap(&mut first.model, &mut last.model);
        }
        self.submit(at, requests).map(drop)
    }

    /// A callback of its own, so that its number is known before it is queued.
    pub(super) fn call_back(&mut self) -> Checked {
        let at = self.stream_at();
        let stream = self.streams[at].index();
        let sequence = self.world.state().oracle.lane(stream).reserved + 1;
        let callback = self.callback();
        let point = StreamPoint { stream, sequence };
        let own = self.random.one_in(4).then(|| self.streams[at].ticket(point));
        let world = Arc::clone(&self.world);
        let block = ControlBlock::HostCallback(HostCallback::new(move || {
            // It would wait for itself.
            if own.is_some_and(|own| !matches!(own.wait(), Err(Error::InsideCallback { .. }))) {
                world.state().check(broken(Promise::RightRefusal, "a callback may wait"));
            }
            run_callback(&world, point, callback)
        }));
        self.submit(at, vec![Request::invisible(block, Effect::None)]).map(drop)
    }

    /// Work outside the card; some of it is cancelled by resets.
    pub(super) fn leave_the_card(&mut self) -> Checked {
        let at = self.stream_at();
        let stream = self.streams[at].index();
        let sequence = self.world.state().oracle.lane(stream).reserved + 1;
        let point = StreamPoint { stream, sequence };
        let world = Arc::clone(&self.world);
        let cancelled = Arc::clone(&self.world);
        let work = ExternalWork::new(
            Label::default(),
            move |completion| world.begin_external(point, completion),
            move || cancelled.cancel_external(point),
        );
        let block = ControlBlock::External(Box::new(work));
        self.submit(at, vec![Request::invisible(block, Effect::None)]).map(drop)
    }

    fn callback(&mut self) -> Callback {
        if is_due(self.world.settings.faults.callback, &mut self.random) {
            self.random.pick(&[Callback::Fails, Callback::Panics])
        } else {
            Callback::Works
        }
    }

    pub(super) fn compose(&mut self) -> Checked {
        let at = self.stream_at();
        let mut composed = Composed { blocks: ControlBlockStream::new(), models: Vec::new() };
        for _ in 0..=self.random.below(self.world.settings.queue_bound.min(5) - 1) {
            let Some(Request { block, model }) = self.request(at, true) else { continue };
            if let Err(error) = composed.blocks.append(block) {
                return unexpected("a block is not composed", &error);
            }
            composed.models.push(model);
        }
        if composed.models.is_empty() {
            return Ok(());
        }
        if let Err(error) = composed.blocks.finalize() {
            return unexpected("a list is not finalized", &error);
        }
        if self.composed.len() == COMPOSED {
            let oldest = self.random.index(COMPOSED);
            self.composed.swap_remove(oldest);
        }
        self.composed.push(composed);
        Ok(())
    }

    pub(super) fn replay(&mut self) -> Checked {
        if self.composed.is_empty() {
            return self.compose();
        }
        let at = self.stream_at();
        let which = self.random.index(self.composed.len());
        let composed = self.composed.swap_remove(which);
        let stream = self.streams[at].index();
        let names = || composed.models.iter().flat_map(Block::allocations).flatten();
        let is_live = names().all(|id| self.live.contains(&id));
        if is_live && !names().all(|id| self.may_use(id, stream)) {
            self.composed.push(composed);
            return Ok(());
        }
        if is_live {
            let replay = |stream: &FlexStream| composed.blocks.replay(stream).map(Some);
            self.queue(at, &composed.models, replay)?;
            self.composed.push(composed);
            return Ok(());
        }
        match composed.blocks.replay(&self.streams[at]) {
            Err(_) => self.refused("a freed handle is replayed"),
            Ok(_) => broken(Promise::RightRefusal, "a freed handle was replayed"),
        }
    }

    /// Queues blocks and compares what comes back. `None` if they were refused, or left out
    /// because the card could not tell them from others.
    pub(super) fn submit(
        &mut self,
        at: usize,
        requests: Vec<Request>,
    ) -> Checked<Option<StreamPoint>> {
        let mut blocks = Vec::new();
        let mut models = Vec::new();
        for Request { block, model } in requests {
            blocks.push(block);
            models.push(model);
        }
        self.queue(at, &models, |stream| stream.submit(blocks).map(Some))
    }

    pub(super) fn queue(
        &mut self,
        at: usize,
        models: &[Block],
        call: impl FnOnce(&FlexStream) -> Result<Option<StreamPoint>, Error>,
    ) -> Checked<Option<StreamPoint>> {
        let stream = self.streams[at].index();
        let refusal = self.refusal(stream);
        let mut state = self.world.state();
        let Some(sequence) = state.oracle.announce(stream, models) else { return Ok(None) };
        let point = StreamPoint { stream, sequence };
        let kind = models.last().map_or(BlockKind::Launch, |model| model.kind);
        state.log.add(self.world.now(), Step::Queued { kind, point });
        drop(state);
        let sabotage = self.world.settings.sabotage;
        let result = match call(&self.streams[at]) {
            Err(Error::Poisoned { .. }) if sabotage == Some(Sabotage::ReadPoisoned) => Ok(None),
            other => other,
        };
        let mut state = self.world.state();
        match (result, refusal) {
            (Ok(given), None) if given.is_none_or(|given| given == point) => {
                state.oracle.check_sound(stream, models)?;
                state.report.blocks += models.len() as u64;
                state.unverified += models.len() as u64;
                state.oracle.accept(stream)?;
                drop(state);
                self.keep_ticket(at, point);
                Ok(Some(point))
            }
            // The stream's only failure comes by waiting, and the scheduler has not come to that block
            // yet: the event stands for the last one, and will have its fault.
            (Ok(Some(given)), None)
                if kind == BlockKind::RecordEvent
                    && given == (StreamPoint { sequence: sequence - 1, ..point })
                    && state.oracle.lane(stream).is_first_doom_uncertain() =>
            {
                state.oracle.retract(stream)?;
                Ok(Some(given))
            }
            (Err(Error::Stream(reported)), Some(cause)) => {
                state.report.reported += 1;
                state.oracle.check_reported(Some(cause), Some(&reported))?;
                state.oracle.retract(stream)?;
                drop(state);
                if self.random.one_in(6) {
                    self.reset_stream_at(at)?;
                }
                Ok(None)
            }
            (Err(Error::Poisoned { cause, .. }), None) => {
                state.report.poisoned += 1;
                state.oracle.check_poisoned(stream, models, &cause)?;
                state.oracle.retract(stream)?;
                Ok(None)
            }
            (result, refusal) => {
                let message = format!("{result:?}, not {point:?} or {refusal:?}");
                broken(Promise::RightRefusal, message)
            }
        }
    }

    /// The cause that a stream refuses blocks with. Where the scheduler may not know of a failure
    /// yet, its recorder is asked.
    fn refusal(&self, stream: StreamIndex) -> Option<usize> {
        self.make_certain(stream);
        self.world.state().oracle.refusal(stream)
    }

    pub(super) fn make_certain(&self, stream: StreamIndex) {
        let is_uncertain = self.world.state().oracle.lane(stream).is_open_uncertain();
        if is_uncertain {
            self.world.compare();
        }
    }

    fn keep_ticket(&mut self, at: usize, point: StreamPoint) {
        let times = self.world.state().oracle.lane(point.stream).doomed_times;
        let ticket = (self.streams[at].ticket(point), times);
        match self.tickets.len() {
            TICKETS => {
                let oldest = self.random.index(TICKETS);
                self.tickets[oldest] = ticket;
            }
            _ => self.tickets.push(ticket),
        }
    }

    /// A block for a batch: events, too.
    fn any_request(&mut self, at: usize) -> Option<Request> {
        match self.random.below(8) {
            0 => {
                let block = ControlBlock::RecordEvent(Some(Arc::default()));
                Some(Request::invisible(block, Effect::None))
            }
            1 => {
                let point = self.past_point()?;
                Some(Request::invisible(ControlBlock::WaitEvent(point), Effect::WaitFor(point)))
            }
            _ => self.request(at, false),
        }
    }

    /// A block that has been queued, and whose end every stream still knows.
    fn past_point(&mut self) -> Option<StreamPoint> {
        let at = self.random.index(self.tickets.len());
        let (ticket, times) = self.tickets.get(at)?;
        let point = ticket.point();
        self.world.state().oracle.is_remembered(point, *times).then_some(point)
    }

    /// A block for the card; if need be one that can be composed.
    fn request(&mut self, at: usize, is_composed: bool) -> Option<Request> {
        let stream = self.streams[at].index();
        let (to, target) = self.span(stream)?;
        let kinds: &[u64] = if is_composed { &[1, 3, 4, 5] } else { &[0, 1, 2, 3, 4, 5] };
        let request = match self.random.pick(kinds) {
            0 => {
                let number = self.number();
                let source = payload(number, to.bytes).into();
                let copy = Box::new(CopyToDevice { source, target, nest: None });
                Request::new(ControlBlock::CopyToDevice(copy), Effect::Write { to, number })
            }
            1 => {
                let number = self.number();
                let block = self.streams[at].stage(&payload(number, to.bytes), target);
                Request::new(block, Effect::Write { to, number })
            }
            2 => {
                let buffer = HostBuffer::from(payload(self.number(), target.bytes as usize));
                let lent = buffer.lend_to_write().ok()?;
                let copy = Box::new(CopyFromDevice { source: target, target: lent, nest: None });
                Request::new(ControlBlock::CopyFromDevice(copy), Effect::Read { from: to })
            }
            3 => self.copy_on_device(stream, to, target)?,
            4 => {
                let pattern = (self.number() >> 32) as u32;
                let pattern = pattern.to_le_bytes();
                let block = ControlBlock::Fill { pattern: Pattern::new(&pattern)?, target };
                Request::new(block, Effect::Fill { to, pattern })
            }
            _ => {
                let label = self.random.index(self.labels.len());
                let program = target.handle;
                let label = self.labels[label];
                let block = ControlBlock::launch(program, label);
                Request::new(block, Effect::Count { program: to.allocation })
            }
        };
        Some(request)
    }

    fn copy_on_device(
        &mut self,
        stream: StreamIndex,
        to: Span,
        target: DeviceRange,
    ) -> Option<Request> {
        let (mut from, mut source) = self.span(stream)?;
        let bytes = from.bytes.min(to.bytes);
        let to = Span { bytes, ..to };
        from.bytes = bytes;
        source.bytes = bytes as u64;
        let target = DeviceRange { bytes: bytes as u64, ..target };
        if source.overlaps(&target) {
            return None;
        }
        let copy = Box::new(CopyDevice { source, target, nest: None });
        Some(Request::new(ControlBlock::CopyDevice(copy), Effect::Copy { from, to }))
    }

    /// Some bytes of an allocation that a stream may use.
    fn span(&mut self, stream: StreamIndex) -> Option<(Span, DeviceRange)> {
        let id = self.live.get(self.random.index(self.live.len())).copied()?;
        if !self.may_use(id, stream) {
            return None;
        }
        let state = self.world.state();
        let allocation = state.oracle.allocations.get(id);
        let window = allocation.window_bytes();
        let handle = allocation.handle;
        let handle_bytes = allocation.bytes;
        drop(state);
        // Now and then all of it, which heals what is poisoned.
        let is_whole = handle_bytes == window as u64 && self.random.one_in(4);
        let bytes = if is_whole { window } else { 8 + self.random.index(25) };
        let offset = self.random.index(window - bytes + 1);
        let span = Span { allocation: id, offset, bytes };
        Some((span, DeviceRange { handle, offset: offset as u64, bytes: bytes as u64 }))
    }

    /// Memory is for the stream that it was allocated for first: others may use it when earlier
    /// owners are done with it.
    fn may_use(&self, id: usize, stream: StreamIndex) -> bool {
        let mut state = self.world.state();
        let allocation = state.oracle.allocations.get(id);
        let home = allocation.home;
        let behind = allocation.behind;
        stream == home || state.oracle.lane(home).front >= behind
    }
}

fn run_callback(world: &World, point: StreamPoint, callback: Callback) -> Result<(), String> {
    world.call_back(point, callback);
    let message = format!("planned for block {}", point.sequence);
    match callback {
        Callback::Works => Ok(()),
        Callback::Fails => Err(message),
        // No hook is called, so nothing is printed.
        Callback::Panics => resume_unwind(Box::new(message)),
    }
}
