use super::*;
use crate::{
    CopyFromDevice, CopyPeer, CopyToDevice, HandleTag, HostBuffer, Label, PFDeviceHandle, Pattern,
};

const FIRST: EngineIndex = EngineIndex(0);

#[derive(Debug, Default)]
struct Reports(Mutex<Vec<(EngineIndex, Token, Outcome)>>);

impl Completions for Reports {
    fn complete(&self, engine: EngineIndex, token: Token, outcome: Outcome) {
        self.0.lock().push((engine, token, outcome));
    }
}

fn card() -> (ScriptedCard, Arc<Reports>, DeviceHandle) {
    let card = ScriptedCard::new(MemoryMode::Pf).with_engines(2);
    let region = card.try_allocate(4096).expect("there are many");
    let reports = Arc::new(Reports::default());
    card.connect(reports.clone());
    let place = PFDeviceHandle { physical_address: region.base_address };
    (card, reports, DeviceHandle::pf(place, HandleTag { epoch: 0, generation: 0, slot: 0 }))
}

fn fill(handle: DeviceHandle, bytes: u64) -> ControlBlock {
    let target = DeviceRange::start_of(handle, bytes);
    ControlBlock::Fill { pattern: Pattern::from(7), target }
}

#[test]
fn a_hang_that_ignores_aborts_ends_by_a_reset() {
    let (card, reports, handle) = card();
    card.script(Trigger::Nth(1), Behaviour::HangForever);
    assert_eq!(card.start(FIRST, Token(5), fill(handle, 1)), Started::Later);
    card.abort(FIRST, Token(5));
    assert_eq!(card.hanging(), [FIRST]);
    assert!(reports.0.lock().is_empty());

    card.reset();
    let reported = std::mem::take(&mut *reports.0.lock());
    assert!(matches!(&reported[..], [(FIRST, Token(5), Err(Fault::DeviceLost { .. }))]));
    assert!(card.hanging().is_empty());
}

#[test]
fn a_scripted_loss_takes_the_hanging_blocks_along() {
    let (card, reports, handle) = card();
    card.script(Trigger::Nth(1), Behaviour::Hang);
    card.script(Trigger::Nth(2), Behaviour::Lose);
    assert_eq!(card.start(FIRST, Token(0), fill(handle, 1)), Started::Later);
    let lost = card.start(EngineIndex(1), Token(1), fill(handle, 1));
    assert!(matches!(lost, Started::Done(Err(Fault::DeviceLost { .. }))));
    assert_eq!(reports.0.lock().len(), 1);
    let target = DeviceRange::start_of(handle, 1);
    assert!(matches!(card.accept(target, &[1]), Err(Fault::DeviceLost { .. })));
}

#[test]
fn a_hung_copy_keeps_its_buffer_until_it_ends() {
    let (card, reports, handle) = card();
    let buffer = HostBuffer::zeroed(4);
    let source = buffer.lend_to_read().expect("it is not lent");
    let copy = CopyToDevice { source, target: DeviceRange::start_of(handle, 4), nest: None };
    card.script(Trigger::Next(BlockKind::CopyToDevice), Behaviour::Hang);
    card.start(FIRST, Token(0), ControlBlock::CopyToDevice(Box::new(copy)));
    assert!(buffer.write().is_err());
    card.abort(FIRST, Token(0));
    assert!(buffer.write().is_ok());
    assert_eq!(reports.0.lock()[0].2, Err(Fault::Hung { milliseconds: 0 }));
}

#[test]
fn a_short_copy_writes_half_and_fails() {
    let (card, _, handle) = card();
    let range = DeviceRange::start_of(handle, 8);
    let peer = Arc::new(ScriptedCard::new(MemoryMode::Pf));
    peer.try_allocate(4096).expect("the same place");
    let host = HostBuffer::from(vec![1; 8]);
    let target = host.lend_to_write().expect("it is not lent");
    let blocks = [
        fill(handle, 8),
        ControlBlock::CopyFromDevice(Box::new(CopyFromDevice {
            source: range,
            target,
            nest: None,
        })),
        ControlBlock::CopyPeer(Box::new(CopyPeer {
            source: range,
            peer: peer.clone(),
            target: range,
        })),
    ];
    for (token, block) in blocks.into_iter().enumerate() {
        card.script(Trigger::Nth(1), Behaviour::ShortCopy);
        let why = "it ended after 4 of 8 bytes".into();
        let expected = Started::Done(Err(Fault::CopyFailed { why }));
        assert_eq!(card.start(FIRST, Token(token as u64), block), expected);
    }
    assert_eq!(card.memory().bytes(range), Ok(vec![7, 7, 7, 7, 0, 0, 0, 0]));
    assert_eq!(host.read().expect("it is back")[..], [7, 7, 7, 7, 1, 1, 1, 1]);
    assert_eq!(peer.memory().bytes(range), Ok(vec![7, 7, 7, 7, 0, 0, 0, 0]));
}

#[test]
fn a_launch_needs_a_program() {
    let (card, _, program) = card();
    let launch = || ControlBlock::launch(program, Label::default());
    let started = card.start(FIRST, Token(0), launch());
    assert!(matches!(started, Started::Done(Err(Fault::BadProgram { .. }))));
    let place = DeviceRange::start_of(program, 16);
    card.memory().write(place, &ScriptedCard::PROGRAM).expect("in bounds");
    assert_eq!(card.start(FIRST, Token(1), launch()), Started::Done(Ok(())));
    assert_eq!(card.log()[1].kind, BlockKind::Launch);
    assert_eq!(card.log()[1].token, Token(1));
}
