//! Addresses of the device are not to be seen in VF mode.

use std::sync::Arc;

use spyre_flex::{Context, Error, Priority};
use spyre_hal::{DeviceRange, MemoryMode, Regions, ScriptedCard};

#[test]
fn no_address_shows_in_what_a_virtual_function_prints() -> Result<(), Error> {
    let card = Arc::new(ScriptedCard::new(MemoryMode::Vf));
    // The second region, as the first one's address is how long regions are, which is no secret.
    card.try_allocate(1 << 20).expect("a region");
    let region = card.try_allocate(1 << 20).expect("a region");
    card.release(region.id);
    let context = Context::open(card)?;
    let stream = context.stream(Priority::Low)?;
    let memory = stream.allocate(1 << 20)?;
    stream.launch(memory)?;
    let past_the_end = DeviceRange { handle: memory, offset: 1 << 20, bytes: 1 };

    let seen = [
        format!("{context:?}"),
        format!("{stream:?}"),
        format!("{memory:?} {memory}"),
        format!("{:?}", context.allocator().snapshot()),
        format!("{:?}", context.allocator().statistics()),
        format!("{:?}", stream.synchronize()),
        format!("{:?}", stream.fill(past_the_end, 0)),
        format!("{:?}", context.free(memory).and_then(|()| context.free(memory))),
        format!("{:?}", context.scheduler().flight_record()),
    ];

    let address = region.base_address;
    for secret in [format!("{address}"), format!("{address:x}"), format!("{address:X}")] {
        let leak = seen.iter().find(|text| text.contains(&secret));
        assert_eq!(leak, None, "{secret}");
    }
    Ok(())
}
