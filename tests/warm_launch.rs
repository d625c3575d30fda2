//! A warm launch by plan takes nothing from the heap. One test: the whole process is counted.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use spyre::artifact::samples::{self, Elements};
use spyre::card::SoftwareCard;
use spyre::hal::{Hardware, MemoryMode, NullCard};
use spyre::numerics::DType;
use spyre::runtime::{Device, Error, ExecutionPlan, SpyreTensor, launch_kernel};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: everything is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps to the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Allocations of 200 launches of a plan that has been launched before: the least of some tries, as
/// queues grow when a busy machine lets more blocks wait than ever before.
fn allocations(hardware: Arc<dyn Hardware>, plan: &ExecutionPlan) -> Result<u64, Error> {
    let stream = Device::open(hardware)?.default_stream()?;
    plan.load(&stream)?;
    let tensors: Result<Vec<_>, Error> = plan
        .tensor_input_metadata()
        .iter()
        .map(|_| SpyreTensor::empty(&stream, &[64, 64], DType::Float32))
        .collect();
    let tensors = tensors?;
    let launch = |count: u64| -> Result<(), Error> {
        for _ in 0..count {
            launch_kernel(&stream, plan, &tensors)?;
        }
        // A thread that sleeps is put on a list; a thread that polls is not.
        while !stream.query()? {
            std::hint::spin_loop();
        }
        Ok(())
    };
    let mut least = u64::MAX;
    for _ in 0..20 {
        let before = ALLOCATIONS.load(Ordering::SeqCst);
        launch(200)?;
        least = least.min(ALLOCATIONS.load(Ordering::SeqCst) - before);
    }
    Ok(least)
}

#[test]
fn warm_launches_take_nothing_from_the_heap() -> Result<(), Error> {
    let f32s = Elements::exact(DType::Float32);
    let outputs = [
        samples::addition(f32s, None)?,
        samples::addition(f32s, Some([16, 64]))?, // four tiles
        samples::matmul(f32s, Some([32, 32, 32]))?, // eight, with partial sums
        samples::two_additions(f32s, None)?,
    ];
    for output in &outputs {
        let plan = ExecutionPlan::from_compiler_output(output.clone())?;
        let name = &output.steps[0].name;
        assert_eq!(allocations(Arc::new(NullCard::new()), &plan)?, 0, "{name} on the null card");
    }
    // The software card reads a table that has not changed without taking memory.
    let plan = ExecutionPlan::from_compiler_output(outputs[0].clone())?;
    let software = Arc::new(SoftwareCard::new(MemoryMode::Vf));
    assert_eq!(allocations(software, &plan)?, 0, "on the software card");
    Ok(())
}
