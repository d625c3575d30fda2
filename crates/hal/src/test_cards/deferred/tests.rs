use parking_lot::Mutex;

use super::*;
use crate::{
    Behaviour, DeviceHandle, HandleTag, HostBuffer, LateCard, MemoryMode, NullCard, PFDeviceHandle,
    Pattern, ScriptedCard, Trigger,
};

#[derive(Debug, Default)]
pub(super) struct Reports {
    pub(super) seen: Mutex<Vec<(u16, u64, Outcome)>>,
    /// Dropped by the first report, on whichever thread that is.
    owned: Mutex<Option<Arc<dyn Hardware>>>,
    reported: parking_lot::Condvar,
}

impl Reports {
    pub(super) fn tokens(&self) -> Vec<u64> {
        self.seen.lock().iter().map(|(_, token, _)| *token).collect()
    }

    fn wait_for(&self, reports: usize) {
        let mut seen = self.seen.lock();
        let is_short = |seen: &mut Vec<_>| seen.len() < reports;
        let patience = Duration::from_secs(10);
        assert!(!self.reported.wait_while_for(&mut seen, is_short, patience).timed_out());
    }
}

impl Completions for Reports {
    fn complete(&self, engine: EngineIndex, token: Token, outcome: Outcome) {
        let owned = self.owned.lock().take();
        drop(owned);
        self.seen.lock().push((engine.0, token.0, outcome));
        self.reported.notify_all();
    }
}

fn fill() -> ControlBlock {
    let place = PFDeviceHandle { physical_address: 0 };
    let handle = DeviceHandle::pf(place, HandleTag { epoch: 0, generation: 0, slot: 0 });
    ControlBlock::Fill { pattern: Pattern::from(1), target: DeviceRange::start_of(handle, 1) }
}

pub(super) fn start(hardware: &dyn Hardware, engine: u16, token: u64) -> Started {
    hardware.start(EngineIndex(engine), Token(token), fill())
}

fn deferred<H: Hardware>(hardware: H) -> (DeferredCard<H>, Arc<Reports>) {
    let deferred = DeferredCard::new(hardware);
    let reports = Arc::new(Reports::default());
    deferred.connect(reports.clone());
    (deferred, reports)
}

pub(super) fn is_lost(outcome: &Outcome) -> bool {
    matches!(outcome, Err(Fault::DeviceLost { .. }))
}

#[test]
fn blocks_wait_until_they_are_picked_in_engine_order() {
    let (card, reports) = deferred(NullCard::with_engines(4));
    for engine in [3, 0, 2] {
        assert_eq!(start(&card, engine, u64::from(engine)), Started::Later);
    }
    assert_eq!(card.pending(), 3);
    assert!(card.finish(1) && card.finish(3) && card.finish(9));
    assert_eq!(reports.tokens(), [2, 3, 0]);
    assert_eq!(card.pending(), 0);
    assert!(!card.finish(0));
}

#[test]
fn a_block_that_waits_can_be_aborted_and_never_starts() {
    let (card, reports) = deferred(ScriptedCard::new(MemoryMode::Pf));
    start(&card, 0, 5);
    card.abort(EngineIndex(0), Token(4));
    assert_eq!((card.pending(), reports.tokens().len()), (1, 0), "it was another's");
    card.abort(EngineIndex(0), Token(5));
    assert_eq!(*reports.seen.lock(), [(0, 5, Err(Fault::Hung { milliseconds: 0 }))]);
    assert!(card.inner().log().is_empty());
    assert!(!card.finish(0));
}

#[test]
fn a_block_that_hangs_in_the_hardware_is_aborted_there() {
    let (card, reports) = deferred(ScriptedCard::new(MemoryMode::Pf));
    card.inner().script(Trigger::Nth(1), Behaviour::Hang);
    start(&card, 0, 5);
    assert!(card.finish(0));
    assert_eq!((card.pending(), reports.tokens().len()), (0, 0));
    card.abort(EngineIndex(0), Token(4));
    assert!(reports.tokens().is_empty(), "it was another's");
    card.abort(EngineIndex(0), Token(5));
    assert_eq!(*reports.seen.lock(), [(0, 5, Err(Fault::Hung { milliseconds: 0 }))]);
}

#[test]
fn a_reset_ends_what_waits_and_what_hangs() {
    let (card, reports) = deferred(ScriptedCard::new(MemoryMode::Pf).with_engines(2));
    card.inner().script(Trigger::Nth(1), Behaviour::HangForever);
    start(&card, 0, 1);
    card.finish(0);
    start(&card, 1, 2);
    card.reset();
    assert_eq!(reports.tokens(), [2, 1]);
    assert!(reports.seen.lock().iter().all(|(_, _, outcome)| is_lost(outcome)));
    assert_eq!(start(&card, 0, 3), Started::Later);
}

#[test]
fn what_waits_when_it_is_dropped_lets_go_and_is_lost() {
    let (card, reports) = deferred(NullCard::new());
    let buffer = HostBuffer::zeroed(1);
    let source = buffer.lend_to_read().expect("it is not lent");
    let ControlBlock::Fill { target, .. } = fill() else { unreachable!() };
    let copy = crate::CopyToDevice { source, target, nest: None };
    card.start(EngineIndex(0), Token(1), ControlBlock::CopyToDevice(Box::new(copy)));
    drop(card);
    assert!(buffer.write().is_ok());
    assert!(is_lost(&reports.seen.lock()[0].2));
}

#[test]
fn a_late_card_that_is_dropped_ends_what_hangs() {
    let card = LateCard::new(ScriptedCard::new(MemoryMode::Pf).with_engines(2), 3);
    let reports = Arc::new(Reports::default());
    card.connect(reports.clone());
    card.inner().script(Trigger::Every(crate::BlockKind::Fill), Behaviour::HangForever);
    start(&card, 0, 1);
    start(&card, 1, 2);
    drop(card);
    assert_eq!(reports.seen.lock().len(), 2);
    assert!(reports.seen.lock().iter().all(|(_, _, outcome)| is_lost(outcome)));
}

#[test]
fn a_late_card_may_be_dropped_by_its_own_report() {
    for seed in 0..20 {
        let card = Arc::new(LateCard::new(NullCard::with_engines(2), seed));
        let reports = Arc::new(Reports::default());
        card.connect(reports.clone());
        start(&*card, 0, 1);
        start(&*card, 1, 2);
        *reports.owned.lock() = Some(card);
        // Reported before the owner was handed over, both may be done: a third is not needed then.
        reports.wait_for(2);
        let owned = reports.owned.lock().take();
        drop(owned);
        assert_eq!(reports.seen.lock().len(), 2);
    }
}

/// A card that carries blocks out inside `start`: they end by an abort or a reset only.
#[derive(Debug, Default)]
struct HangingCard {
    card: NullCard,
    ended: Mutex<Option<Fault>>,
    changed: parking_lot::Condvar,
}

impl Regions for HangingCard {
    crate::forward_regions!(|self| self.card);
}

impl HangingCard {
    fn end(&self, fault: Fault) {
        *self.ended.lock() = Some(fault);
        self.changed.notify_all();
    }
}

impl Hardware for HangingCard {
    fn description(&self) -> Description {
        Description { name: "hanging".to_owned(), engines: 1, is_prompt: false }
    }

    fn connect(&self, _: Arc<dyn Completions>) {}

    fn start(&self, _: EngineIndex, _: Token, block: ControlBlock) -> Started {
        let mut ended = self.ended.lock();
        // What came before the block does not end it.
        *ended = None;
        self.changed.wait_while(&mut ended, |ended| ended.is_none());
        drop(block);
        Started::Done(ended.take().map_or(Ok(()), Err))
    }

    fn abort(&self, _: EngineIndex, _: Token) {
        self.end(Fault::Hung { milliseconds: 1 });
    }

    fn reset(&self) {
        self.end(lost());
    }
}

impl PeerMemory for HangingCard {
    fn accept(&self, _: DeviceRange, _: &[u8]) -> Outcome {
        Ok(())
    }
}

#[test]
fn a_hardware_that_is_not_prompt_is_aborted_and_reset_while_it_starts() {
    let card = LateCard::new(HangingCard::default(), 0);
    let reports = Arc::new(Reports::default());
    card.connect(reports.clone());
    for round in 0..20 {
        assert_eq!(start(&card, 0, 2 * round), Started::Later);
        card.abort(EngineIndex(0), Token(2 * round));
        reports.wait_for(2 * round as usize + 1);
        assert!(matches!(reports.seen.lock().last(), Some((0, _, Err(Fault::Hung { .. })))));
        assert_eq!(start(&card, 0, 2 * round + 1), Started::Later);
        card.reset();
        assert!(reports.seen.lock().last().is_some_and(|(_, _, outcome)| is_lost(outcome)));
        assert_eq!(reports.seen.lock().len(), 2 * round as usize + 2);
    }
}
