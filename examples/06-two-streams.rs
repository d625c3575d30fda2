//! Two streams on a card with two engines: `cargo run --example 06-two-streams`.
#![allow(clippy::print_stdout, reason = "a program that talks to a person")]

use std::error::Error;
use std::sync::Arc;

use spyre::artifact::samples::{self, Elements};
use spyre::card::SoftwareCard;
use spyre::hal::MemoryMode;
use spyre::numerics::DType;
use spyre::runtime::{
    CPUTensor, Device, Event, ExecutionPlan, Priority, SpyreTensor, launch_kernel,
};

fn main() -> Result<(), Box<dyn Error>> {
    let card = SoftwareCard::new(MemoryMode::Vf).with_engines(2);
    let device = Device::open(Arc::new(card))?;
    let layer_1 = device.stream(Priority::Low)?;
    let layer_2 = device.stream(Priority::High)?;

    // One plan, loaded once: each stream has its own words in it.
    let output = samples::addition(Elements::exact(DType::Float32), None)?;
    let plan = ExecutionPlan::from_compiler_output(output)?;
    plan.load(&layer_1)?;
    let ones = CPUTensor::from_values(&[64, 64], &[1.0_f32; 64 * 64])?;
    let [x, y] =
        [SpyreTensor::from_host(&layer_1, &ones)?, SpyreTensor::from_host(&layer_1, &ones)?];
    let [sum, twice] = [(); 2].map(|()| SpyreTensor::empty(&layer_1, &[64, 64], DType::Float32));
    let sum = sum?;
    let twice = twice?;

    launch_kernel(&layer_1, &plan, &[x, y.clone(), sum.clone()])?;
    let is_summed = Event::new();
    layer_1.record(&is_summed)?;
    layer_2.wait(&is_summed)?; // the host does not wait
    launch_kernel(&layer_2, &plan, &[sum, y, twice.clone()])?;
    let result = twice.to_host(&layer_2)?;
    layer_2.synchronize()?;

    println!("1 + 1 + 1 = {}", result.values::<f32>()?[0]);
    for (name, stream) in [("layer 1", &layer_1), ("layer 2", &layer_2)] {
        let id = stream.id().0;
        let index = stream.flex().index().0;
        println!("{name} is stream {id} of the pool, and stream {index} of the scheduler");
    }
    for record in device.context().scheduler().flight_record() {
        println!("  {record}");
    }
    Ok(())
}
