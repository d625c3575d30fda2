//! A matmul four times its tile, twelve blocks: `cargo run --example 05-tiled-matmul`.
#![allow(clippy::print_stdout, reason = "a program that talks to a person")]

use std::error::Error;

use spyre::artifact::samples::{self, Elements};
use spyre::numerics::DType;
use spyre::runtime::{CPUTensor, ExecutionPlan, SpyreTensor, launch_kernel};

fn main() -> Result<(), Box<dyn Error>> {
    let device = spyre::device(0)?;
    device.context().scheduler().set_tracing(true);
    let stream = device.default_stream()?;

    // Compiled for tiles of 256: a is four times as long, and b is one tile.
    let output = samples::matmul(Elements::exact(DType::Float32), Some([256, 256, 256]))?;
    let plan = ExecutionPlan::from_compiler_output(output)?;
    plan.load(&stream)?;
    let numbers = |count: usize| (0..count).map(|at| (at % 7) as f32 - 3.0).collect::<Vec<_>>();
    let a = numbers(1024 * 256);
    let b = numbers(256 * 256);
    let spyre_a = SpyreTensor::from_host(&stream, &CPUTensor::from_values(&[1024, 256], &a)?)?;
    let spyre_b = SpyreTensor::from_host(&stream, &CPUTensor::from_values(&[256, 256], &b)?)?;
    let result = SpyreTensor::empty(&stream, &[1024, 256], DType::Float32)?;

    let tensors = [spyre_a, spyre_b, result.clone()];
    let last = launch_kernel(&stream, &plan, &tensors)?.sequence;
    let result = result.to_host(&stream)?.clone();
    stream.synchronize()?;

    println!("The blocks of the launch:");
    let records = device.context().scheduler().flight_record();
    for record in records.iter().filter(|record| (last - 11..=last).contains(&record.sequence)) {
        println!("  {record}");
    }
    let values: Vec<f32> = result.values()?;
    let exact = |row: usize, column: usize| -> f32 {
        (0..256).map(|k| a[row * 256 + k] * b[k * 256 + column]).sum()
    };
    let is_right = (0..1024 * 256).step_by(97).all(|at| values[at] == exact(at / 256, at % 256));
    println!("\nThe product is right: {is_right}");

    println!("\nWhat tiles cannot cover is said before anything is queued:");
    let [a, b, _] = tensors;
    let short = SpyreTensor::empty(&stream, &[512, 256], DType::Float32)?;
    println!("  {}", launch_kernel(&stream, &plan, &[a, b, short]).expect_err("1024 is not 512"));
    Ok(())
}
