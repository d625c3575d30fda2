//! Cards to run workflows on, and numbers to run them with.

use std::sync::Arc;

use spyre::card::SoftwareCard;
use spyre::flex::{Drive, Policy, Record, RecordState, SchedulerSettings};
use spyre::hal::{BlockKind, Hardware, LateCard, MemoryMode};
use spyre::numerics::DType;
use spyre::runtime::{CPUTensor, Device, DeviceSettings, Error, SpyreStream, SpyreTensor};

/// Every kind of card that workflows must pass on.
pub(crate) fn each_card(mut run: impl FnMut(&Device) -> Result<(), Error>) -> Result<(), Error> {
    for engines in [1, 4] {
        for mode in [MemoryMode::Vf, MemoryMode::Pf] {
            run(&open(Arc::new(card(mode, engines))))?;
        }
        run(&open(Arc::new(LateCard::new(card(MemoryMode::Vf, engines), 7))))?;
        run(&open(Arc::new(card(MemoryMode::Vf, engines).guarded())))?;
    }
    Ok(())
}

pub(crate) fn card(mode: MemoryMode, engines: u16) -> SoftwareCard {
    SoftwareCard::new(mode).with_engines(engines)
}

pub(crate) fn open(hardware: Arc<dyn Hardware>) -> Device {
    open_with(hardware, Policy::default())
}

pub(crate) fn open_with(hardware: Arc<dyn Hardware>, policy: Policy) -> Device {
    let scheduler =
        SchedulerSettings { policy, drive: Some(Drive::Workers), ..SchedulerSettings::default() };
    let settings = DeviceSettings { scheduler, ..DeviceSettings::default() };
    Device::open_with(hardware, settings).expect("a card")
}

/// Small whole numbers, so that every sum is exact in whatever order.
pub(crate) fn whole(shape: &[usize], seed: u64) -> CPUTensor {
    let elements: usize = shape.iter().product();
    let mut state = seed;
    let number = |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ((state >> 33) % 9) as f32 - 4.0
    };
    let values: Vec<f32> = (0..elements).map(number).collect();
    CPUTensor::from_values(shape, &values).expect("as many as the shape holds")
}

pub(crate) fn values(host: &CPUTensor) -> Vec<f32> {
    host.values().expect("it is not lent")
}

pub(crate) fn read(stream: &SpyreStream, tensor: &SpyreTensor) -> Result<Vec<f32>, Error> {
    let host = tensor.to_host(stream)?;
    stream.synchronize()?;
    host.values()
}

/// A tensor full of NaN, padding included.
pub(crate) fn poisoned(stream: &SpyreStream, shape: &[usize]) -> Result<SpyreTensor, Error> {
    let tensor = SpyreTensor::empty(stream, shape, DType::Float32)?;
    let range = spyre::hal::DeviceRange::start_of(tensor.device_handle(), tensor.size_bytes());
    if range.bytes > 0 {
        stream.flex().fill(range, 0xff_u8)?;
    }
    Ok(tensor)
}

/// A tensor of these numbers, with NaN in its padding.
pub(crate) fn put(stream: &SpyreStream, host: &CPUTensor) -> Result<SpyreTensor, Error> {
    let tensor = poisoned(stream, host.shape())?;
    tensor.copy_from(stream, host)?;
    Ok(tensor)
}

/// a x b, as plain Rust does it.
pub(crate) fn product(a: &[f32], b: &[f32], [m, k, n]: [usize; 3]) -> Vec<f32> {
    let mut c = vec![0.0; m * n];
    for i in 0..m {
        for l in 0..k {
            for j in 0..n {
                c[i * n + j] += a[i * k + l] * b[l * n + j];
            }
        }
    }
    c
}

/// Blocks that ran on a stream since its block number `since`, in order.
pub(crate) fn trace(stream: &SpyreStream, since: u64) -> Vec<(BlockKind, String)> {
    let records = stream.device().context().scheduler().flight_record();
    let mut records: Vec<Record> = records
        .into_iter()
        .filter(|record| record.stream == stream.flex().index() && record.sequence > since)
        .collect();
    records.sort_by_key(|record| record.sequence);
    assert!(records.iter().all(|record| record.state == RecordState::Done), "{records:?}");
    records.into_iter().map(|record| (record.kind, record.label.to_string())).collect()
}
