//! State that a reset must keep.

use std::sync::Arc;

use spyre_flex::{Context, Error, Priority};
use spyre_hal::{Behaviour, BlockKind, DeviceRange, HostBuffer, MemoryMode, ScriptedCard, Trigger};

#[test]
fn the_first_block_after_a_reset_runs_on_a_stream_that_had_nothing_queued() -> Result<(), Error> {
    let card = Arc::new(ScriptedCard::new(MemoryMode::Vf));
    let context = Context::open(card.clone())?;
    let idle = context.stream(Priority::Low)?;
    let busy = context.stream(Priority::Low)?;
    let memory = DeviceRange::start_of(busy.allocate(128)?, 128);

    card.script(Trigger::Next(BlockKind::Fill), Behaviour::Lose);
    busy.fill(memory, 1)?;
    assert!(context.synchronize().is_err());
    context.reset()?;

    let memory = DeviceRange::start_of(idle.allocate(128)?, 128);
    let host = HostBuffer::zeroed(128);
    idle.fill(memory, 7)?;
    idle.copy_from_device(memory, &host)?;
    idle.synchronize()?;
    assert_eq!(host.read()?[..], [7; 128]);
    Ok(())
}
