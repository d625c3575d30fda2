//! Cost of opening a device. One test: the process is to hold nothing else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spyre::card::SoftwareCard;
use spyre::hal::MemoryMode;
use spyre::numerics::DType;
use spyre::runtime::{CPUTensor, Device, Error, SpyreTensor};

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes << 10
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("Linux").count()
}

#[test]
fn ninety_six_gigabytes_open_at_once_without_memory_or_threads() -> Result<(), Error> {
    let resident = resident_bytes();
    let running = threads();
    let open = |_| {
        let start = Instant::now();
        let card = SoftwareCard::new(MemoryMode::Vf).with_engines(4);
        Device::open(Arc::new(card)).map(|device| (start.elapsed(), device))
    };
    let devices: Vec<(Duration, Device)> = (0..10).map(open).collect::<Result<_, _>>()?;
    let quickest = devices.iter().map(|(elapsed, _)| *elapsed).min().expect("ten");
    assert!(quickest < Duration::from_millis(1), "it took {quickest:?}");
    let taken = resident_bytes().saturating_sub(resident);
    assert!(taken < 10 << 20, "{taken} bytes for 10 devices");
    assert_eq!(threads(), running);

    let stream = devices[0].1.default_stream()?;
    let host = CPUTensor::zeroed(&[4, 4], DType::Float32)?;
    SpyreTensor::from_host(&stream, &host)?;
    stream.synchronize()?;
    assert_eq!(threads(), running + 4, "one for each engine, with the first stream");
    Ok(())
}
