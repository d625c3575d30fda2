//! Tiles on a device with an engine to spare: the correction inputs of the next tile are copied while this
//! one computes.

use std::sync::Arc;

use spyre::artifact::samples::{self, Elements};
use spyre::card::SoftwareCard;
use spyre::flex::Record;
use spyre::hal::{BlockKind, ControlBlock, Fault, HostCallback, MemoryMode};
use spyre::numerics::DType;
use spyre::runtime::{
    CPUTensor, Composition, Device, Error, ExecutionPlan, SpyreStream, SpyreTensor, StreamId,
    launch_kernel,
};

const TILE: usize = 192;
const TILES: usize = 6;

struct Bed {
    device: Device,
    stream: SpyreStream,
    plan: ExecutionPlan,
    tensors: [SpyreTensor; 3],
}

impl Bed {
    /// A product of six tiles along its rows.
    fn open(engines: u16) -> Result<Self, Error> {
        let card = SoftwareCard::new(MemoryMode::Vf).with_engines(engines);
        let device = Device::open(Arc::new(card))?;
        let stream = device.default_stream()?;
        let tile = [TILE as u64; 3];
        let output = samples::matmul(Elements::exact(DType::Float32), Some(tile))?;
        let plan = ExecutionPlan::from_compiler_output(output)?;
        plan.load(&stream)?;
        let rows = TILE * TILES;
        let a: Vec<f32> = (0..rows * TILE).map(|at| (at / TILE) as f32).collect();
        let tensors = [
            SpyreTensor::from_host(&stream, &CPUTensor::from_values(&[rows, TILE], &a)?)?,
            SpyreTensor::from_host(
                &stream,
                &CPUTensor::from_values(&[TILE, TILE], &vec![1.0_f32; TILE * TILE])?,
            )?,
            SpyreTensor::empty(&stream, &[rows, TILE], DType::Float32)?,
        ];
        device.synchronize()?;
        Ok(Self { device, stream, plan, tensors })
    }

    fn launch(&self) -> Result<(), Error> {
        launch_kernel(&self.stream, &self.plan, &self.tensors).map(drop)
    }

    /// Everything that ran, in order of its end.
    fn records(&self, act: impl FnOnce() -> Result<(), Error>) -> Result<Vec<Record>, Error> {
        let scheduler = self.device.context().scheduler();
        scheduler.start_recording(1024);
        act()?;
        self.device.synchronize()?;
        Ok(scheduler.stop_recording().records)
    }

    /// Row r of the product is r times the length of a row of `a`.
    fn check(&self) -> Result<(), Error> {
        let host = self.tensors[2].to_host(&self.stream)?;
        self.stream.synchronize()?;
        let values = host.values::<f32>()?;
        let is_right = |(at, value): (usize, &f32)| *value == (at / TILE * TILE) as f32;
        assert!(values.iter().enumerate().all(is_right));
        Ok(())
    }

    /// Number of copies of correction inputs that started while an earlier tile computed.
    fn overlaps(&self, records: &[Record]) -> usize {
        let of = |is_wanted: &dyn Fn(&Record) -> bool| {
            records.iter().copied().filter(|record| is_wanted(record)).collect::<Vec<_>>()
        };
        let copies = of(&|record| record.kind == BlockKind::CopyToDevice);
        let computes = of(&|record| {
            record.kind == BlockKind::Launch
                && record.label.name().is_some_and(|name| !name.ends_with(".correction"))
        });
        assert_eq!((copies.len(), computes.len()), (TILES, TILES));
        let overlaps = |(copy, before): &(&Record, &Record)| copy.started_at < before.done_at;
        copies[1..].iter().zip(&computes).filter(overlaps).count()
    }
}

#[test]
fn inputs_of_the_next_tile_are_copied_while_this_one_computes() -> Result<(), Error> {
    let bed = Bed::open(2)?;
    let mut overlaps = 0;
    for _ in 0..10 {
        let records = bed.records(|| bed.launch())?;
        overlaps += bed.overlaps(&records);
        bed.check()?;
    }
    assert!(overlaps > 10, "{overlaps} of {} copies", 10 * (TILES - 1));
    Ok(())
}

#[test]
fn copies_ahead_have_a_row_of_their_own_in_traces() -> Result<(), Error> {
    let bed = Bed::open(2)?;
    let records = bed.records(|| bed.launch())?;
    let stream = |kind: BlockKind| records.iter().find(|record| record.kind == kind);
    let id = |kind| stream(kind).and_then(|record| bed.device.stream_id(record.stream));
    assert_eq!(id(BlockKind::Launch), Some(StreamId::DEFAULT));
    assert_eq!(id(BlockKind::CopyToDevice), Some(StreamId(StreamId::AHEAD)));
    Ok(())
}

#[test]
fn one_engine_does_one_after_the_other() -> Result<(), Error> {
    let bed = Bed::open(1)?;
    let records = bed.records(|| bed.launch())?;
    assert_eq!(bed.overlaps(&records), 0);
    let kinds: Vec<BlockKind> = records.iter().map(|record| record.kind).collect();
    let round = [BlockKind::CopyToDevice, BlockKind::Launch, BlockKind::Launch];
    assert_eq!(kinds, round.repeat(TILES));
    bed.check()
}

#[test]
fn a_fault_is_reported_once_and_the_stream_goes_on() -> Result<(), Error> {
    let bed = Bed::open(2)?;
    bed.launch()?;
    for _ in 0..3 {
        let fails = || Err("it fails".to_owned());
        bed.stream.flex().submit([ControlBlock::HostCallback(HostCallback::new(fails))])?;
        bed.launch().expect("launch behind a fault");
        let error = bed.device.synchronize().expect_err("the callback failed");
        let Error::Flex(spyre::flex::Error::Stream(fault)) = &error else { panic!("{error}") };
        assert!(matches!(fault.fault, Fault::CallbackFailed { .. }), "{error}");
        bed.device.synchronize().expect("reported already");
        bed.launch().expect("launch after");
        bed.device.synchronize().expect("good");
        bed.check()?;
    }
    Ok(())
}

#[test]
fn a_composition_of_tiles_copies_in_order() -> Result<(), Error> {
    let bed = Bed::open(2)?;
    let mut composition = Composition::new(&bed.stream);
    composition.append(&bed.plan.operations()[0], &bed.tensors, &[])?;
    composition.finalize()?;
    assert_eq!(composition.len(), 3 * TILES);
    for _ in 0..3 {
        composition.replay()?;
        bed.launch()?;
    }
    bed.device.synchronize()?;
    bed.check()
}
