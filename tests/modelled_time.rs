//! The second clock: what blocks would have taken on a real card, in the flight recorder.

use std::sync::Arc;

use spyre::card::SoftwareCard;
use spyre::compiler::{CompileOptions, Kernel};
use spyre::flex::{Context, Error, Priority};
use spyre::hal::{BlockKind, DeviceRange, Hardware, HostBuffer, LateCard, MemoryMode};
use spyre::runtime::{Device, ExecutionPlan, SpyreTensor, launch_kernel};

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
    stream.copy_from_device(to, host.lend_to_write().expect("no copy uses it"))?;
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
    for card in [Arc::new(card()) as Arc<dyn Hardware>, Arc::new(LateCard::new(card(), 3))] {
        let found = recorded(card)?;
        assert_eq!(found, expected);
    }
    Ok(())
}

/// Times of a kernel's launch in nanoseconds: the card's, and the compiler's prediction.
fn compared(text: &str, extents: &[(&str, u64)]) -> Result<(u64, f64), Box<dyn std::error::Error>> {
    let kernel: Kernel = text.parse()?;
    let options = CompileOptions::default();
    let predicted = kernel.predict(&options, extents)?.time.total();
    let device = Device::open(Arc::new(SoftwareCard::new(MemoryMode::Vf)))?;
    let stream = device.default_stream()?;
    let plan = ExecutionPlan::from_compiler_output(kernel.compile(&options)?)?;
    plan.load(&stream)?;
    let mut tensors = Vec::new();
    for operand in kernel.operands() {
        let size = |&dim| extents.iter().find(|(name, _)| *name == kernel.dim_name(dim));
        let sizes: Vec<usize> =
            operand.dims.iter().filter_map(size).map(|(_, size)| *size as usize).collect();
        tensors.push(SpyreTensor::empty(&stream, &sizes, operand.dtype)?);
    }
    device.context().scheduler().set_tracing(true);
    launch_kernel(&stream, &plan, &tensors)?;
    stream.synchronize()?;
    let records = device.context().scheduler().flight_record();
    let launch = records.iter().rev().find(|record| record.kind == BlockKind::Launch);
    Ok((launch.ok_or("no launch")?.modelled_nanoseconds, predicted))
}

#[test]
fn the_card_models_what_the_compiler_predicts() -> Result<(), Box<dyn std::error::Error>> {
    let with = |body: &str| format!("kernel one(i, j) {{\n in x: float16[i, j]\n {body}\n}}");
    let product = "kernel mm(i, j, k) {\n in a: float16[i, k]\n in b: float16[k, j]\n \
                   out c: float16[i, j]\n c = sum<k>(a * b)\n}";
    for text in [
        &with("out y: float16[i, j]\n y = x * 2 + 1"),
        &with("out y: float16[i, j]\n y = x"),
        &with("out y: float16[j, i]\n y = x"),
        &with("out y: float16[i]\n y = sum<j>(x)"),
        &with("out y: float16[j]\n y = max<i>(x)"),
        &with("out y: float16[i, j]\n y = x - max<j>(x)"),
        product,
    ] {
        for [i, j] in [[2, 3], [63, 65], [128, 640]] {
            let sizes = [("i", i), ("j", j), ("k", 96)];
            let sizes = &sizes[..if text == product { 3 } else { 2 }];
            let (modelled, predicted) = compared(text, sizes)?;
            assert_eq!(modelled, predicted.ceil() as u64, "{text} {i} {j}");
        }
    }
    Ok(())
}
