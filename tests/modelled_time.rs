//! The second clock: what blocks would have taken on a real card, in the flight recorder.

use std::sync::Arc;

use spyre::card::SoftwareCard;
use spyre::flex::{Context, Error, Priority};
use spyre::hal::{BlockKind, DeviceRange, Hardware, HostBuffer, Late, MemoryMode};

/// Copies there and back, a fill and a copy on the card, and what the recorder says of them.
fn recorded(card: Arc<dyn Hardware>) -> Result<Vec<(BlockKind, u64)>, Error> {
    let context = Context::open(card)?;
    let stream = context.stream(Priority::Low)?;
    let [from, to] = [stream.allocate(25_000)?, stream.allocate(25_000)?];
    let [from, to] = [from, to].map(|handle| DeviceRange::start_of(handle, 25_000));
    context.scheduler().set_tracing(true);
    stream.copy_to_device(vec![1; 25_000], from)?;
    stream.copy_on_device(from, to, None)?;
    stream.fill(from, 0)?;
    let host = HostBuffer::zeroed(25_000);
    stream.copy_from_device(to, host.lend_to_write().expect("nobody uses it"))?;
    stream.synchronize()?;
    let records = context.scheduler().flight_record();
    Ok(records.iter().map(|record| (record.kind, record.modelled_nanoseconds)).collect())
}

#[test]
fn every_block_has_a_modelled_time() -> Result<(), Error> {
    let card = || SoftwareCard::new(MemoryMode::Vf);
    let expected = [
        (BlockKind::CopyToDevice, 11_000),
        (BlockKind::CopyDevice, 424),
        (BlockKind::Fill, 20_167),
        (BlockKind::CopyFromDevice, 11_000),
    ];
    for card in [Arc::new(card()) as Arc<dyn Hardware>, Arc::new(Late::new(card(), 3))] {
        let found = recorded(card)?;
        assert_eq!(found, expected);
    }
    Ok(())
}
