//! What a reset leaves behind.

use std::sync::Arc;

use spyre_flex::{Context, Error, Priority};
use spyre_hal::{DeviceRange, MemoryMode, ScriptedCard};

#[test]
fn the_first_block_after_a_reset_is_carried_out() -> Result<(), Error> {
    let card = Arc::new(ScriptedCard::new(MemoryMode::Vf));
    let context = Context::open(Arc::clone(&card) as _)?;
    let (idle, used) = (context.stream(Priority::Low)?, context.stream(Priority::Low)?);
    let memory = DeviceRange::start_of(used.allocate(128)?, 128);
    used.fill(memory, 1)?;
    used.synchronize()?;
    context.reset()?;

    let memory = DeviceRange::start_of(used.allocate(128)?, 128);
    for stream in [&idle, &used] {
        let point = stream.fill(memory, 2)?;
        stream.ticket(point).wait()?;
    }

    assert_eq!(card.log().len(), 3);
    Ok(())
}
