//! Traces of real launches: all of their blocks, and no addresses.

use std::sync::Arc;

use spyre::artifact::samples::{self, Elements};
use spyre::card::SoftwareCard;
use spyre::hal::{BlockKind, MemoryMode};
use spyre::numerics::DType;
use spyre::runtime::{CPUTensor, Device, Error, ExecutionPlan, SpyreTensor, launch_kernel};
use spyre::trace::Trace;

/// An address that no number of a trace is by chance.
const BASE_ADDRESS: u64 = 0x005e_c2e7_abcd_e000;

fn traced_matmul(mode: MemoryMode) -> Result<(Device, Trace), Error> {
    let card = SoftwareCard::new(mode).with_base_address(BASE_ADDRESS);
    let device = Device::open(Arc::new(card))?;
    device.context().scheduler().set_tracing(true);
    let stream = device.default_stream()?;
    let output = samples::matmul(Elements::exact(DType::Float32), Some([64, 64, 64]))?;
    let plan = ExecutionPlan::from_compiler_output(output)?;
    plan.load(&stream)?;
    device.synchronize()?;
    let host = CPUTensor::from_values(&[256, 64], &[1.0_f32; 256 * 64])?;
    let a = SpyreTensor::from_host(&stream, &host)?;
    let b = a.narrow(0, 0, 64)?;
    let c = SpyreTensor::empty(&stream, &[256, 64], DType::Float32)?;
    launch_kernel(&stream, &plan, &[a, b, c])?;
    stream.synchronize()?;
    let trace = Trace::of_device(&device);
    Ok((device, trace))
}

#[test]
fn the_last_twelve_blocks_are_four_tiles_in_order() -> Result<(), Error> {
    let (_, trace) = traced_matmul(MemoryMode::Vf)?;
    let blocks = trace.blocks().iter().filter(|block| block.stream.0 == 0);
    let blocks: Vec<_> = blocks.cloned().collect(); // programs are loaded by another stream
    let last = &blocks[blocks.len() - 12..];
    let found: Vec<_> = last.iter().map(|block| (block.kind, block.name.as_deref())).collect();
    let round = [
        (BlockKind::CopyToDevice, None),
        (BlockKind::Launch, Some("matmul.correction")),
        (BlockKind::Launch, Some("matmul")),
    ];
    assert_eq!(found, [round; 4].concat());
    assert!(last.iter().all(|block| block.queued_at > 0 && block.started_at >= block.queued_at));
    Ok(())
}

#[test]
fn no_address_is_in_a_trace() -> Result<(), Error> {
    for mode in [MemoryMode::Vf, MemoryMode::Pf] {
        let (_device, trace) = traced_matmul(mode)?;
        let chrome = trace.chrome();
        let perfetto = trace.perfetto();
        // Whatever lies in the first MiB behind the base has these digits.
        let hexadecimal = format!("{:x}", BASE_ADDRESS >> 20);
        let decimal = (BASE_ADDRESS / 10_000_000).to_string();
        let text = String::from_utf8_lossy(&perfetto).into_owned() + &chrome;
        assert!(!text.contains(&hexadecimal) && !text.contains(&decimal), "{mode:?}");
        let bytes = &BASE_ADDRESS.to_le_bytes()[3..7];
        assert!(!perfetto.windows(4).any(|window| window == bytes), "{mode:?}");
        let numbers = chrome.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
        assert!(numbers.into_iter().all(|number: u64| number < BASE_ADDRESS), "{mode:?}");
    }
    Ok(())
}
