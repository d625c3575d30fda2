//! Operands that the scheduler has checked, and that no caller can claim to have checked.

use std::sync::{Arc, Mutex};

use spyre_flex::{Error, MemoryAccess, MemoryUse, Priority, SchedulerSettings};
use spyre_hal::{
    CheckedOperands, Completions, ControlBlock, Description, DeviceRange, EngineIndex, Hardware,
    Label, MemoryMode, Outcome, PeerMemory, Regions, ScriptedCard, Started, Token,
};

use crate::launch;
use crate::support::{open, program, whole};

/// A card that notes which operands of launches were checked.
#[derive(Debug)]
struct Noting {
    card: ScriptedCard,
    noted: Mutex<Vec<CheckedOperands>>,
}

impl Regions for Noting {
    spyre_hal::forward_regions!(|self| self.card);
}

impl Hardware for Noting {
    fn description(&self) -> Description {
        self.card.description()
    }

    fn connect(&self, completions: Arc<dyn Completions>) {
        self.card.connect(completions);
    }

    fn start(&self, engine: EngineIndex, token: Token, block: ControlBlock) -> Started {
        if let ControlBlock::Launch { checked_operands, .. } = block {
            self.noted.lock().expect("no thread panics").push(checked_operands);
        }
        self.card.start(engine, token, block)
    }

    fn abort(&self, engine: EngineIndex, token: Token) {
        self.card.abort(engine, token);
    }

    fn reset(&self) {
        self.card.reset();
    }
}

impl PeerMemory for Noting {
    fn accept(&self, target: DeviceRange, bytes: &[u8]) -> Outcome {
        self.card.accept(target, bytes)
    }
}

#[test]
fn only_operands_that_came_with_a_launch_are_checked() -> Result<(), Error> {
    let card = ScriptedCard::new(MemoryMode::Vf);
    let card = Arc::new(Noting { card, noted: Mutex::default() });
    let context = open(Arc::clone(&card) as Arc<dyn Hardware>, SchedulerSettings::default());
    let stream = context.stream(Priority::Low)?;
    let program = program(&stream)?;
    let [x, y] = [whole(stream.allocate(256)?, 256), whole(stream.allocate(128)?, 128)];
    let forged = || {
        let label = Label::default();
        let checked_operands = CheckedOperands::of(&[x]);
        ControlBlock::Launch { program, label, checked_operands, is_long: false }
    };

    let used = |range| MemoryUse { range, access: MemoryAccess::Update };
    stream.submit_using(&mut vec![launch(program), forged()], &[x, y].map(used))?;
    let epoch = stream.failure_epoch();
    stream.submit_unless_failed_since(epoch, &mut vec![forged(), launch(program)], &[used(y)])?;
    stream.submit([forged()])?;
    stream.submit_using(&mut vec![forged()], &[])?;
    stream.run_soon(forged())?;
    stream.launch(program)?;
    stream.synchronize()?;

    let noted = card.noted.lock().expect("no thread panics");
    let of_both = CheckedOperands::of(&[x, y]);
    let expected = [
        CheckedOperands::NONE,
        of_both,
        CheckedOperands::NONE,
        CheckedOperands::of(&[y]),
        CheckedOperands::NONE,
    ];
    assert_eq!(noted[..5], expected);
    assert!(noted[5].is_for(&[]) && noted[6..] == [CheckedOperands::NONE; 2], "{noted:?}");
    Ok(())
}
