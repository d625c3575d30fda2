//! A plan is loaded: each binary by a copy of its own, to memory of its own.

use spyre::artifact::samples::{self, Elements};
use spyre::artifact::{CodeImage, EntryImage};
use spyre::flex::Priority;
use spyre::hal::{BlockKind, DeviceHandle, DeviceRange, HostBuffer};
use spyre::numerics::DType;
use spyre::runtime::{Error, ExecutionPlan, SpyreCompute, SpyreStream, launch_kernel};

use crate::bed::{each_card, poisoned, put, read, trace, values, whole};

const F32: Elements =
    Elements { dtype: DType::Float32, format: spyre::numerics::DataFormat::IeeeFp32 };

fn bytes(stream: &SpyreStream, handle: DeviceHandle, bytes: usize) -> Result<Vec<u8>, Error> {
    let host = HostBuffer::zeroed(bytes);
    stream.flex().copy_from_device(DeviceRange::start_of(handle, bytes as u64), &host)?;
    stream.synchronize()?;
    Ok(host.read()?.to_vec())
}

#[test]
fn every_binary_has_a_copy_and_a_handle_of_its_own() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        let output = samples::matmul(F32, None)?;
        let code = output.images[0].encode();
        let plan = ExecutionPlan::from_compiler_output(output)?;
        assert!(plan.operations()[0].device_handles().is_empty());

        plan.load(&stream)?;
        let handles = plan.operations()[0].device_handles();
        device.synchronize()?;

        let records = device.context().scheduler().flight_record();
        let copies = records.iter().filter(|record| record.kind == BlockKind::CopyToDevice).count();
        // Code, entry, correction; and one more correction for tiles in turns, where an engine is to spare.
        let engines = device.context().hardware().description().engines;
        let corrections = if engines > 1 { 2 } else { 1 };
        assert_eq!((copies, handles.len()), (2 + corrections, 3));
        let [_, entry, shared] = handles[..] else { panic!("{handles:?}") };
        assert_eq!(
            plan.operations()[0].compute().and_then(SpyreCompute::device_handle),
            Some(entry)
        );
        assert_eq!(bytes(&stream, shared, code.len())?, code);
        assert!(CodeImage::decode(&bytes(&stream, shared, code.len())?).is_ok());
        Ok(())
    })
}

#[test]
fn to_load_again_copies_nothing() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        let plan = ExecutionPlan::from_compiler_output(samples::addition(F32, None)?)?;
        plan.load(&stream)?;
        let handles = plan.operations()[0].device_handles();
        let blocks = trace_length(&stream)?;

        plan.load(&stream)?;
        plan.load(&device.stream(Priority::High)?)?;
        assert_eq!(plan.operations()[0].device_handles(), handles);
        assert_eq!(trace_length(&stream)?, blocks);
        Ok(())
    })
}

fn trace_length(stream: &SpyreStream) -> Result<usize, Error> {
    stream.synchronize()?;
    Ok(trace(stream, 0).len())
}

#[test]
fn streams_share_code_and_have_entries_of_their_own() -> Result<(), Error> {
    each_card(|device| {
        let first = device.default_stream()?;
        let second = device.stream(Priority::Low)?;
        let plan = ExecutionPlan::from_compiler_output(samples::addition(F32, None)?)?;
        plan.load(&first)?;

        let one = plan.operations()[0].device_handles_on(&first)?;
        let other = plan.operations()[0].device_handles_on(&second)?;
        assert_eq!(one, plan.operations()[0].device_handles());
        assert_eq!(one[2], other[2]);
        assert!(one[0] != other[0] && one[1] != other[1]);
        Ok(())
    })
}

#[test]
fn init_packets_are_written_when_an_instance_is_made() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        let plan = ExecutionPlan::from_compiler_output(samples::fixed_addition(F32, [8, 40])?)?;
        assert_eq!(plan.init_packets().len(), 1);
        plan.load(&stream)?;
        let compute = plan.operations()[0].compute().expect("it adds");
        let entry: EntryImage = compute.read_entry(&stream)?;
        let extents = [0, 1].map(|dim| entry.extent(spyre::artifact::Dim(dim)));
        assert_eq!(extents, [8, 40]);

        let [a, b] = [1, 2].map(|seed| whole(&[8, 40], seed));
        let c = poisoned(&stream, &[8, 40])?;
        launch_kernel(&stream, &plan, &[put(&stream, &a)?, put(&stream, &b)?, c.clone()])?;
        let sums: Vec<f32> = values(&a).iter().zip(values(&b)).map(|(a, b)| a + b).collect();
        assert_eq!(read(&stream, &c)?, sums);
        Ok(())
    })
}

#[test]
fn a_plan_from_files_gives_the_same_bytes() -> Result<(), Error> {
    let folder = std::env::temp_dir().join(format!("spyre-workflow-2-{}", std::process::id()));
    let output = samples::matmul(F32, Some([64, 64, 64]))?;
    output.save(&folder)?;
    let loaded = spyre::artifact::CompilerOutput::load(&folder)?;
    std::fs::remove_dir_all(&folder).expect("it was written");

    each_card(|device| {
        let stream = device.default_stream()?;
        let a = put(&stream, &whole(&[128, 64], 1))?;
        let b = put(&stream, &whole(&[64, 64], 2))?;
        let results = [output.clone(), loaded.clone()].map(|output| {
            let plan = ExecutionPlan::from_compiler_output(output)?;
            plan.load(&stream)?;
            let c = poisoned(&stream, &[128, 64])?;
            launch_kernel(&stream, &plan, &[a.clone(), b.clone(), c.clone()])?;
            read(&stream, &c)
        });
        let [built, read] = results;
        assert_eq!(built?, read?);
        Ok(())
    })
}
