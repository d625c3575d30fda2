//! What the scheduler vouches for to the card, and that nobody else can.

use std::sync::{Arc, Mutex};

use spyre_flex::{Error, MemoryAccess, MemoryUse, Priority, SchedulerSettings};
use spyre_hal::{
    Completions, ControlBlock, Description, DeviceRange, EngineIndex, Hardware, Label, MemoryMode,
    Outcome, Regions, ScriptedCard, Started, Token, Vouched,
};

use crate::launch;
use crate::support::{open, program, whole};

/// A card that notes what launches are vouched for.
#[derive(Debug)]
struct Noting {
    card: ScriptedCard,
    noted: Mutex<Vec<Vouched>>,
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
        if let ControlBlock::Launch { vouched, .. } = block {
            self.noted.lock().expect("nobody panics").push(vouched);
        }
        self.card.start(engine, token, block)
    }

    fn abort(&self, engine: EngineIndex, token: Token) {
        self.card.abort(engine, token);
    }

    fn reset(&self) {
        self.card.reset();
    }

    fn accept(&self, target: DeviceRange, bytes: &[u8]) -> Outcome {
        self.card.accept(target, bytes)
    }
}

#[test]
fn only_what_was_checked_with_a_launch_is_vouched_for() -> Result<(), Error> {
    let card = ScriptedCard::new(MemoryMode::Vf);
    let card = Arc::new(Noting { card, noted: Mutex::default() });
    let context = open(Arc::clone(&card) as Arc<dyn Hardware>, SchedulerSettings::default());
    let stream = context.stream(Priority::Low)?;
    let program = program(&stream)?;
    let [x, y] = [whole(stream.allocate(256)?, 256), whole(stream.allocate(128)?, 128)];
    let forged = || {
        let (label, vouched) = (Label::default(), Vouched::of(&[x]));
        ControlBlock::Launch { program, label, vouched, is_long: false }
    };

    let used = |range| MemoryUse { range, access: MemoryAccess::Update };
    stream.submit_using(&mut vec![launch(program), forged()], &[x, y].map(used))?;
    let calm = stream.calm();
    stream.submit_if_calm(calm, &mut vec![forged(), launch(program)], &[used(y)])?;
    stream.submit([forged()])?;
    stream.submit_using(&mut vec![forged()], &[])?;
    stream.run_soon(forged())?;
    stream.launch(program)?;
    stream.synchronize()?;

    let noted = card.noted.lock().expect("nobody panics");
    let of_both = Vouched::of(&[x, y]);
    let expected = [Vouched::NONE, of_both, Vouched::NONE, Vouched::of(&[y]), Vouched::NONE];
    assert_eq!(noted[..5], expected);
    assert!(noted[5].is_for(&[]) && noted[6..] == [Vouched::NONE; 2], "{noted:?}");
    Ok(())
}
